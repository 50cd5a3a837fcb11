"""The Compare tab: two to four strategies on one prompt and seed, all scored by one model."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any, TypeVar

import gradio as gr

from engine.analysis.comparisons import LABELS
from engine.analysis.likelihood import Scores, score_trace
from engine.declare.weights import WeightsParams
from engine.errors import Cancelled, ParameterError
from engine.messages import Message
from engine.models.loading import LoadedModel
from engine.models.weights import weights_from_info
from engine.one_shot_thread import run_in_thread
from engine.run.jobs import JobStream
from engine.run.preparation import ModelLoader
from engine.run.request import DecodeRequest, check_request
from engine.run.scheduler import EventCallback
from engine.run.weights import read_single_weights
from engine.sources.source import Source
from engine.statistics.text_divergence import diff_tokens, has_comparable_ids, output_tokens
from engine.statistics.weights_summary import describe_weights
from engine.strategies import STRATEGIES
from engine.trace.events import Checking, Failed, Finished, Started, StepRecorded
from engine.trace.records import ModelInfo, Trace
from playground.forms.form import check_method_is_local, form_request, single_model_weights
from playground.forms.visitor_media import VISITOR_FIELD
from playground.jobs.background_jobs import ENDED_MESSAGE, resumable
from playground.jobs.progress import with_progress
from playground.jobs.zerogpu import on_gpu, queue_options
from playground.runs.stream import stream_run
from playground.shell.elements import (
    PAGE_EVENT,
    PRESS_EVENT,
    add_scripted_element,
    event_data,
    to_outputs,
)
from playground.shell.guard import error_message
from playground.shell.scripts import on_message
from visualizers.compare.summary import ComparedRun, TextComparison, comparison_view

T = TypeVar("T")
_MAX_NUMBER = 2**31
_MAX_ACTIVE = 64


class Comparison:
    """The state of one comparison: current work, finished traces, and whether it was stopped."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.stopped = threading.Event()
        self.run: JobStream | None = None
        self.traces: list[Trace | None] = []
        self.texts = TextComparison()

    def begin(self, run: JobStream) -> None:
        """Register the run of the next column; cancel it if the comparison was stopped."""
        self.traces.append(None)
        self.set_current_work(run)
        if self.stopped.is_set():
            run.cancel()

    def set_current_work(self, work: JobStream) -> None:
        """Set the work that ``stop`` cancels."""
        self.run = work

    def observe_events(self, events: list[Any]) -> dict[str, Any]:
        """Process a batch of events; return ``parting``, where the texts diverge so far."""
        for event in events:
            match event:
                case Started(header):
                    self.texts.begin(header, len(self.traces) - 1)
                case StepRecorded(step, pieces):
                    self.texts.add(step, pieces)
                case Finished(trace):
                    self.traces[-1] = trace
                    self.texts.end()
                case Failed():
                    self.texts.end()
        return {"parting": self.texts.find_divergence()}

    def stop(self) -> None:
        """Cancel the current work within one step and start no further column."""
        self.stopped.set()
        if self.run is not None:
            self.run.cancel()


_ACTIVE: dict[str, Comparison] = {}


def build_compare(bus: Any, queue: str) -> None:
    """Build the tab.

    Args:
        bus: the hidden element that carries run messages.
        queue: the Gradio concurrency id that all runs share.
    """
    with gr.Tab("Compare", id="compare", elem_id="tab-compare"):
        gr.HTML(
            "<h2 class='dp-sr'>Compare</h2>"
            "<p>Give two to four strategies the same prompt and seed and see where their texts "
            "part, what each saw there, and what each cost. One model judges all texts.</p>",
            elem_classes="dp-about",
        )
        page = add_scripted_element(
            "compare",
            on_message("p.compare(element.querySelector('.dp-compare'), trigger)"),
            '<div class="dp-compare"></div>',
        )
    page.input(
        on_gpu(resumable(_start_comparison, _ended_message)),
        None,
        [bus, page],
        **queue_options(queue),
        **PRESS_EVENT,
    )
    page.stop(_stop_comparison, None, None, concurrency_limit=None, **PAGE_EVENT)


def _stop_comparison(event: gr.EventData) -> None:
    comparison = _ACTIVE.get(str(event_data(event).get("id", ""))[:64])
    if comparison is not None:
        comparison.stop()


def _start_comparison(asked: dict[str, Any]) -> Generator[tuple[Any, Any], None, None]:
    yield from to_outputs(run_comparison(asked))


def _ended_message(asked: dict[str, Any]) -> tuple[Any, Any]:
    refused = {
        "kind": "refused",
        "number": _comparison_number(asked),
        "id": "",
        "error": ENDED_MESSAGE,
    }
    return next(to_outputs([(None, refused)]))


def _comparison_number(asked: Any) -> int:
    """Return the page's number of a comparison, or 0 if it is missing or not valid."""
    number = asked.get("number") if isinstance(asked, dict) else None
    # Not isinstance: a bool is an int.
    return number if type(number) is int and 0 <= number < _MAX_NUMBER else 0


def run_comparison(asked: Any) -> Iterator[tuple[str | None, dict[str, Any] | None]]:
    """Decode the columns one after another, then score all texts with the base model.

    Args:
        asked: what the page sent: ``number``, ``prompt`` or ``messages`` with ``template``,
            ``seed``, and ``columns``, each with its models, weight parameters and media; ``base``,
            the scoring model, and ``base_weights``.

    Yields:
        (run message or None, message for the tab or None). Errors become messages; it never raises.
    """
    comparison = Comparison()
    number = _comparison_number(asked)
    about = {"number": number, "id": comparison.id}
    try:
        requests = read_requests(asked)
        # Check the base model's name and weights before anything is decoded.
        named = asked.get("base") or requests[0].model
        base_source = Source.parse(named)
        held = read_single_weights(single_model_weights(asked.get("base_weights") or {}), "compare")
    except BaseException as error:
        yield None, {"kind": "refused", **about, "error": error_message(error)}
        return
    _ACTIVE[comparison.id] = comparison
    while len(_ACTIVE) > _MAX_ACTIVE:
        _ACTIVE.pop(next(iter(_ACTIVE)))
    try:
        yield None, {"kind": "begin", **about}
        # The base model has its own weights setting: columns may load one model at several
        # precisions.
        base = yield from _report_progress(
            about, comparison, partial(_load_base, base_source, held)
        )
        # Columns in parallel would share the processor, and their timings would mean nothing.
        for i, request in enumerate(requests):
            if comparison.stopped.is_set():
                break
            says = Message(
                "Decoding column {label}, {i} of {columns}…",
                label=LABELS[i],
                i=i + 1,
                columns=len(requests),
            )
            yield None, {"kind": "progress", **about, "phase": "decoding", "says": says}
            for text in stream_run(request, key=f"compare-{number}-{i}", follow=comparison):
                yield text, None
        found = yield from _report_progress(
            about, comparison, partial(judge_texts, comparison, base)
        )
        yield None, {"kind": "figures", **about, **found}
    # The page is gone: stop the run, too.
    except GeneratorExit:
        comparison.stop()
        raise
    except BaseException as error:
        yield None, {"kind": "refused", **about, "error": error_message(error)}
    finally:
        _ACTIVE.pop(comparison.id, None)


def _load_base(
    source: Source, weights: WeightsParams, tell: EventCallback, stopped: threading.Event
) -> LoadedModel:
    return ModelLoader(stopped, tell)(source, weights)


def _report_progress(
    about: dict[str, Any], comparison: Comparison, do: Callable[[EventCallback, threading.Event], T]
) -> Generator[tuple[None, dict[str, Any]], None, T]:
    """Run ``do`` as the comparison's current work; yield its progress and return its result."""
    news = with_progress(do, comparison.set_current_work)
    while True:
        try:
            yield None, {"kind": "progress", **about, **next(news)}
        except StopIteration as done:
            return done.value


def read_requests(asked: Any) -> list[DecodeRequest]:
    """Read and check one request per column.

    Raises:
        ParameterError: a value is not valid; the sentence names the parameter.
    """
    columns = asked.get("columns") if isinstance(asked, dict) else None
    if not isinstance(columns, list) or not 2 <= len(columns) <= len(LABELS):
        count = len(columns) if isinstance(columns, list) else columns
        raise ParameterError(
            "columns", count, Message("compare 2 to {columns} columns", columns=len(LABELS))
        )
    shared = {
        name: asked.get(name) for name in ("prompt", "messages", "template", "seed", VISITOR_FIELD)
    }
    return [_read_request(column, shared) for column in columns]


def _read_request(column: Any, shared: dict[str, Any]) -> DecodeRequest:
    if not isinstance(column, dict):
        raise ParameterError("columns", column, "each must be an object")
    request = check_method_is_local(form_request({**column, **shared}))
    check_request(request)
    return request


def judge_texts(
    comparison: Comparison, base: LoadedModel, tell: EventCallback, stopped: threading.Event
) -> dict[str, Any]:
    """Score the decoded texts with the base model; return table, curves and differences.

    Args:
        comparison: holds the traces.
        base: the model that scores.
        tell: receives progress events.
        stopped: set to stop scoring; the remaining columns get a note instead.
    """
    columns, notes = [], []
    traces = list(zip(LABELS, comparison.traces, strict=False))
    for done, (label, trace) in enumerate(traces):
        if trace is None or not trace.outputs:
            notes.append(Message("{label} has no text to judge.", label=label))
            continue
        tell(Checking(done, len(traces), Message("texts read by {name}", name=base.name)))
        column, note = _judge_column(label, trace, base, tell, stopped)
        columns.append(column)
        notes += note
    return comparison_figures(base.info(), columns, notes)


def comparison_figures(
    base: ModelInfo, columns: list[ComparedRun], notes: list[str]
) -> dict[str, Any]:
    """Return table, curves and differences of scored columns as JSON values.

    Args:
        base: the model that scored them.
        columns: the scored columns, the first one being the reference of all differences.
        notes: sentences about columns without scores.
    """
    return {
        "base": base.id,
        "base_held": describe_weights(base),
        "notes": notes,
        "diff": [_diff_texts(columns[0], other) for other in columns[1:]],
        **comparison_view(columns),
    }


def _judge_column(
    label: str, trace: Trace, base: LoadedModel, tell: EventCallback, stopped: threading.Event
) -> tuple[ComparedRun, list[str]]:
    title = STRATEGIES[trace.strategy].title
    if stopped.is_set():
        return ComparedRun(label, title, trace), [
            Message("{label} was not judged: it was stopped.", label=label)
        ]
    try:
        source, held = Source.parse(trace.model.id), weights_from_info(trace.model)
        writer = ModelLoader(stopped, tell)(source, held)
        scores = run_in_thread(partial(score_trace, trace, base, writer, stopped, tell))
    except Cancelled:
        return ComparedRun(label, title, trace), [
            Message("{label} was not judged: it was stopped.", label=label)
        ]
    except Exception as error:  # A failed scoring must not lose the text.
        return ComparedRun(label, title, trace), [
            Message("{label} was not judged: {error}", label=label, error=error_message(error))
        ]
    note = Message(
        "{label}: its text was cut anew by the tokenizer of {name} to be judged; the "
        "counts of tokens are its own.",
        label=label,
        name=base.name,
    )
    pieces = tuple(base.pieces[i] for i in scores.token_ids)
    return to_column(label, trace, scores, pieces), [note] if scores.recut else []


def to_column(label: str, trace: Trace, scores: Scores, pieces: tuple[str, ...]) -> ComparedRun:
    """Return a column with the base model's scores of its text.

    Args:
        label: the column's letter.
        trace: its run.
        scores: the base model's scores, one value per token of ``pieces``.
        pieces: the texts of the tokens as the base model's tokenizer splits them.
    """
    return ComparedRun(
        label,
        STRATEGIES[trace.strategy].title,
        trace,
        scores.mean_logprob,
        scores.perplexity,
        scores.logprobs,
        scores.entropies,
        pieces,
    )


def _diff_texts(first: ComparedRun, other: ComparedRun) -> dict[str, Any]:
    """Return the token diff of two columns: parts of (kind, first pieces, other pieces)."""
    # Ids compare only if both texts come from the same tokenizer.
    by_id = has_comparable_ids([first.trace, other.trace])
    a, b = (output_tokens(c.trace, by_id=by_id) for c in (first, other))
    left, right = (output_tokens(c.trace, by_id=False) for c in (first, other))
    parts = [[e.kind, left[e.a0 : e.a1], right[e.b0 : e.b1]] for e in diff_tokens(a, b)]
    return {"a": first.label, "b": other.label, "parts": parts}
