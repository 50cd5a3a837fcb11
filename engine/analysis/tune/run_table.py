"""Run a table: yields every finished run, shares passes where it can, and goes on from what is done."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import replace
from functools import partial

from engine.analysis.likelihood import parse_judge, score_trace
from engine.analysis.tune.cell_result import CellResult
from engine.analysis.tune.measures import PERPLEXITY, measure_run
from engine.analysis.tune.plan import Cell, TunePlan, check_plan
from engine.errors import BusyError, Cancelled, EngineError
from engine.live import decode_on_server
from engine.messages import Message
from engine.one_shot_thread import run_in_thread
from engine.run.decoding import decode
from engine.run.jobs import JobStream
from engine.run.preparation import ModelLoader
from engine.run.request import DecodeRequest
from engine.run.scheduler import EventCallback, ignore_event
from engine.settings import SETTINGS
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from engine.trace.events import Checking, Failed, Finished, Loading
from engine.trace.records import Trace
from engine.trace.served import is_invented_id

Decode = Callable[[DecodeRequest], JobStream]
_BLOCK = 4
"""Texts per shared row that are written before the judge model reads them: each change of model
waits until the runs that share passes have ended."""
_BUSY_S = 1.0
_LOOK_S = 0.2
"""How often is looked whether the table is to stop."""


def run_table(
    plan: TunePlan,
    done: Iterable[CellResult] = (),
    cancelled: threading.Event | None = None,
    tell: EventCallback = ignore_event,
    decode: Decode = decode,
) -> Iterator[CellResult]:
    """Run what is missing of a table, and yield every run when it has finished.

    A text that another model judges comes a second time, with its perplexity. A run that fails comes
    as a result with its error, and the table goes on.

    Args:
        plan: the table.
        done: results of this plan that exist already, see ``TunePlan.cell_key``; they are not yielded.
        cancelled: stops within one step when set; unfinished runs are discarded.
        tell: receives Loading and Checking events.
        decode: starts a run of a model on this machine.

    Raises:
        EngineError: the plan is not valid, or the judge model cannot be loaded.
    """
    check_plan(plan)
    cancelled = cancelled or threading.Event()
    decode = decode_on_server if plan.is_on_server else decode
    known = {result.cell for result in done if result.is_judged}
    missing = [cell for cell in plan.cells if cell not in known]
    size = _BLOCK * SETTINGS.max_shared_runs
    for shares in (True, False):
        cells = [cell for cell in missing if _shares_passes(plan, cell) == shares]
        width = max(1, SETTINGS.max_shared_runs) if shares else 1
        for first in range(0, len(cells), size):
            waiting: list[CellResult] = []
            block = cells[first : first + size]
            for result in _run_cells(plan, block, width, cancelled, tell, decode):
                if not result.is_judged:
                    waiting.append(result)
                yield result
            yield from _judge_texts(plan, waiting, cancelled, tell)
            if cancelled.is_set():
                return


def _shares_passes(plan: TunePlan, cell: Cell) -> bool:
    shares = STRATEGIES[plan.settings[cell.setting].strategy].shares
    return shares and not plan.runs_alone and not plan.is_on_server


def _run_cells(
    plan: TunePlan,
    cells: Iterable[Cell],
    width: int,
    cancelled: threading.Event,
    tell: EventCallback,
    decode: Decode,
) -> Iterator[CellResult]:
    """Decode several runs at a time and yield each when it has finished."""
    waiting, running = deque(cells), dict[Future[CellResult], None]()
    open_runs: set[JobStream] = set()

    def run(cell: Cell) -> CellResult:
        return _run_cell(plan, cell, cancelled, tell, decode, open_runs)

    with ThreadPoolExecutor(width) as pool:
        try:
            while waiting or running:
                while waiting and len(running) < width:
                    # A thread of the pool has an empty context, without the visitor whose turns these are.
                    running[pool.submit(copy_context().run, run, waiting.popleft())] = None
                ended = wait(running, _LOOK_S, FIRST_COMPLETED).done
                if cancelled.is_set():
                    # A server may be silent for long, and then no event comes that would be looked at.
                    for stream in tuple(open_runs):
                        stream.cancel()
                for future in ended:
                    del running[future]
                    try:
                        yield future.result()
                    except Cancelled:
                        waiting.clear()
        except BaseException:
            # The reader may leave in the middle of the table.
            cancelled.set()
            raise
        finally:
            # Before the pool is left, which waits for its threads: they end with their streams.
            for stream in tuple(open_runs):
                stream.cancel()


def _run_cell(
    plan: TunePlan,
    cell: Cell,
    cancelled: threading.Event,
    tell: EventCallback,
    decode: Decode,
    open_runs: set[JobStream],
) -> CellResult:
    """Decode one run to its end and measure it.

    Raises:
        Cancelled: it was stopped.
    """
    began = time.perf_counter()
    while True:
        if cancelled.is_set():
            raise Cancelled
        try:
            trace = _decode_to_end(plan.request(cell), cancelled, tell, decode, open_runs)
        except BusyError:
            # Others fill the queue; the table has time.
            cancelled.wait(_BUSY_S)
            continue
        except EngineError as error:
            return CellResult(cell, error=str(error), seconds=time.perf_counter() - began)
        return _measure_trace(plan, cell, trace, time.perf_counter() - began)


def _decode_to_end(
    request: DecodeRequest,
    cancelled: threading.Event,
    tell: EventCallback,
    decode: Decode,
    open_runs: set[JobStream],
) -> Trace:
    stream = decode(request)
    open_runs.add(stream)
    try:
        for event in stream:
            if cancelled.is_set():
                raise Cancelled
            if isinstance(event, Loading):
                tell(event)
            elif isinstance(event, Failed):
                raise event.error
            elif isinstance(event, Finished):
                if event.trace.outputs[0].finish_reason == "cancelled":
                    raise Cancelled
                return event.trace
        raise Cancelled
    finally:
        stream.close()
        open_runs.discard(stream)


def _measure_trace(plan: TunePlan, cell: Cell, trace: Trace, seconds: float) -> CellResult:
    output, reference = trace.outputs[0], plan.prompts[cell.prompt].reference
    found: Mapping[str, float | None] = measure_run(trace, plan.checks, reference)
    # A server does not score its text.
    wants = PERPLEXITY in plan.measures and not (plan.judge is None and trace.is_on_server)
    # Invented ids mean other texts in other runs, and all runs are measured together.
    known = not any(map(is_invented_id, output.token_ids))
    if plan.judge is not None or not wants:
        found = {**found, PERPLEXITY: None}
    return CellResult(
        cell,
        output.text,
        output.token_ids if known else (),
        output.finish_reason,
        {name: found[name] for name in plan.measures if name in found},
        seconds=trace.timing.total_s if trace.served is None else seconds,
        is_judged=not wants or not output.token_ids or found[PERPLEXITY] is not None,
        trace=trace,
    )


def _judge_texts(
    plan: TunePlan, waiting: list[CellResult], cancelled: threading.Event, tell: EventCallback
) -> Iterator[CellResult]:
    """Yield results with their perplexity; without it if the judge cannot read a text."""
    load = ModelLoader(cancelled, tell)

    def score(trace: Trace) -> float | None:
        writer = None if trace.is_on_server else load(Source.parse(trace.model.id))
        judge = load(parse_judge(plan.judge)) if plan.judge else writer
        assert judge is not None, "without a judge no server's text waits"
        return score_trace(trace, judge, writer, cancelled, tell).perplexity

    for place, result in enumerate(waiting):
        if cancelled.is_set() or result.trace is None:
            return
        named = Message("texts read by {name}", name=plan.judge or result.trace.model.id)
        tell(Checking(place, len(waiting), named))
        try:
            found = run_in_thread(partial(score, result.trace))
        except Cancelled:
            return
        except EngineError as error:
            yield replace(result, is_judged=True, error=str(error))
            continue
        yield replace(result, values={**result.values, PERPLEXITY: found}, is_judged=True)
