"""The Compare tab: two to four strategies on one prompt and up to five seeds, scored by one model."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import gradio as gr

from engine.analysis.comparisons import LABELS
from engine.analysis.likelihood import Scores, parse_judge, score_trace
from engine.errors import Cancelled, ParameterError
from engine.live import is_on_server
from engine.messages import Message
from engine.models.loading import LoadedModel
from engine.models.weights import weights_from_info
from engine.one_shot_thread import run_in_thread
from engine.run.preparation import ModelLoader
from engine.run.request import DecodeRequest
from engine.run.scheduler import EventCallback
from engine.run.weights import read_single_weights
from engine.sources.source import Source
from engine.statistics.text_divergence import diff_tokens, has_comparable_ids, output_tokens
from engine.statistics.weights_summary import describe_weights
from engine.strategies import STRATEGIES
from engine.strategies.parameter_conditions import is_seed_used
from engine.trace.events import Checking, Failed, Finished, RunReplaced, Started, StepRecorded
from engine.trace.records import ModelInfo, Trace
from playground.forms.form import column_request, single_model_weights
from playground.forms.seeds import read_seeds
from playground.forms.visitor_media import VISITOR_FIELD
from playground.jobs.page_events import connect_jobs
from playground.jobs.progress import STARTING, with_progress
from playground.jobs.registry import JobKind, PageJob
from playground.runs.stream import repeat_run, stream_run
from playground.shell.elements import add_scripted_element, read_page_number
from playground.shell.guard import error_message
from playground.shell.scripts import on_message
from visualizers.compare.measures import compute_measures, find_verdict
from visualizers.compare.summary import (
    COLUMNS,
    FURTHER_COLUMNS,
    ComparedRun,
    TextComparison,
    comparison_view,
)


class Comparison:
    """Finished traces of one seed of a comparison, and where their texts diverge so far.

    Args:
        seed: of all its runs.
        titles: those of the columns' strategies; the trace of a run on a server names none.
    """

    def __init__(self, seed: int, titles: Sequence[str]) -> None:
        self.seed, self.titles = seed, titles
        self.traces: list[Trace | None] = []
        self.events: list[list[Any]] = []
        self.texts = TextComparison()

    def begin(self, run_id: str) -> None:
        """Add the next column."""
        del run_id
        self.traces.append(None)
        self.events.append([])

    def observe_events(self, events: list[Any]) -> dict[str, Any]:
        """Process a batch of events; return ``parting``, where the texts diverge so far."""
        self.events[-1] += events
        for event in events:
            match event:
                case RunReplaced():
                    self.events[-1].clear()
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


def build_compare(bus: Any) -> None:
    """Build the tab; ``bus`` is the hidden element that carries run messages."""
    with gr.Tab("Compare", id="compare", elem_id="tab-compare"):
        page = add_scripted_element(
            "compare",
            on_message("p.compare(element.querySelector('.dp-compare'), trigger)"),
            '<div class="dp-compare"></div>',
        )
    connect_jobs(COMPARE, page, bus=bus)


def run_comparison(job: PageJob, payload: Any) -> Iterator[str | dict[str, Any]]:
    """Decode the columns one after another, then score all texts with the base model.

    With several seeds, all columns of the first seed come first: the page shows them meanwhile. A
    column whose text no seed changes is decoded once, and its messages are repeated for each seed.

    Args:
        job: the job that does it.
        payload: what the page sent: ``number``, ``prompt`` or ``messages`` with ``template``,
            ``seed`` (see ``read_seeds``), and ``columns``, each with its models, weight parameters
            and media; ``base``, the scoring model, and ``base_weights``.

    Yields:
        Messages of the columns' runs, and for the tab ``progress`` and at last ``figures``.

    Raises:
        EngineError: A value is not valid, or the base model cannot be loaded.
    """
    requests = read_requests(payload)
    titles = [STRATEGIES[request.strategy].title for request in requests]
    comparisons = [Comparison(seed, titles) for seed in read_seeds(payload.get("seed"))]
    # Check the base model's name and weights before anything is decoded.
    source = _read_judge(payload.get("base"), requests)
    weights = read_single_weights(
        single_model_weights(payload.get("base_weights") or {}), "compare"
    )
    # As text: JavaScript numbers are exact to 2**53 only.
    seeds = [str(comparison.seed) for comparison in comparisons]
    yield {"kind": "progress", "seeds": seeds, **STARTING}
    # The base model has its own weights setting: columns may load one model at several precisions.
    base = yield from with_progress(
        job, lambda tell, stopped: ModelLoader(stopped, tell)(source, weights)
    )
    number = read_page_number(payload.get("number"))
    # Columns in parallel would share the processor, and their timings would mean nothing.
    for place, comparison in enumerate(comparisons):
        for i, request in enumerate(requests):
            if job.cancelled.is_set():
                break
            seeded = dataclasses.replace(request, seed=comparison.seed)
            key = column_key(number, i, place)
            if place and not is_seed_used(STRATEGIES[request.strategy], request.params):
                yield from repeat_run(seeded, comparisons[0].events[i], key, comparison)
                continue
            says = _progress_text(i, len(requests), comparison.seed, len(comparisons))
            yield {"kind": "progress", "phase": "decoding", "says": says}
            yield from stream_run(job, seeded, key=key, follow=comparison)
    # What was decoded before a stop is still judged; another stop ends the judging.
    job.cancelled.clear()
    found = yield from with_progress(job, partial(judge_texts, comparisons, base))
    yield {"kind": "figures", **found}


def _read_judge(named: Any, requests: Sequence[DecodeRequest]) -> Source:
    """Return the model that scores: the named one, else the first column's that is on this machine."""
    here = (request.model for request in requests if not is_on_server(request))
    return parse_judge(named or next(here, STRATEGIES[requests[0].strategy].default_model))


def column_key(number: int, column: int, place: int) -> str:
    """Return where the page shows the run of a column, from 0, with the seed at a place, from 0."""
    return f"compare-{number}-{column}-{place}" if place else f"compare-{number}-{column}"


def _progress_text(column: int, columns: int, seed: int, seeds: int) -> Message:
    values = {"label": LABELS[column], "i": column + 1, "columns": columns}
    if seeds == 1:
        return Message("Decoding column {label}, {i} of {columns}…", **values)
    return Message(
        "Decoding column {label}, {i} of {columns}, with seed {seed}…", seed=seed, **values
    )


COMPARE = JobKind(
    "compare",
    run_comparison,
    about=lambda payload: {"number": read_page_number(payload.get("number"))},
)


def read_requests(payload: Any) -> list[DecodeRequest]:
    """Read and check one request per column, each with the first seed.

    Raises:
        ParameterError: a value is not valid; the sentence names the parameter.
    """
    columns = payload.get("columns") if isinstance(payload, dict) else None
    if not isinstance(columns, list) or not 2 <= len(columns) <= len(LABELS):
        count = len(columns) if isinstance(columns, list) else columns
        raise ParameterError(
            "columns", count, Message("compare 2 to {columns} columns", columns=len(LABELS))
        )
    shared = {name: payload.get(name) for name in ("prompt", "messages", "template", VISITOR_FIELD)}
    shared["seed"] = read_seeds(payload.get("seed"))[0]
    return [column_request(column, shared) for column in columns]


def judge_texts(
    comparisons: Sequence[Comparison],
    base: LoadedModel,
    tell: EventCallback,
    stopped: threading.Event,
) -> dict[str, Any]:
    """Score the decoded texts with the base model; return the figures of the comparison.

    Args:
        comparisons: hold the traces, one comparison per seed.
        base: the model that scores.
        tell: receives progress events.
        stopped: set to stop scoring; the remaining columns get a note instead.
    """
    judged: list[tuple[int, list[ComparedRun]]] = []
    # A note that several seeds have in common is said once.
    notes: dict[str, None] = {}
    total, done = sum(len(comparison.traces) for comparison in comparisons), 0
    for comparison in comparisons:
        columns = []
        parts = zip(LABELS, comparison.titles, comparison.traces, strict=False)
        for label, title, trace in parts:
            done += 1
            if trace is None or not trace.outputs:
                notes[Message("{label} has no text to judge.", label=label)] = None
                continue
            tell(Checking(done - 1, total, Message("texts read by {name}", name=base.name)))
            column, note = _judge_column(ComparedRun(label, title, trace), base, tell, stopped)
            columns.append(column)
            notes |= dict.fromkeys(note)
        if columns:
            judged.append((comparison.seed, columns))
    return comparison_figures(base.info(), judged, list(notes))


def comparison_figures(
    base: ModelInfo, judged: Sequence[tuple[int, list[ComparedRun]]], notes: list[str]
) -> dict[str, Any]:
    """Return measures, verdict, and per seed table, curves and differences, as JSON values.

    Args:
        base: the model that scored them.
        judged: the scored columns of each seed, the first being the reference of all differences.
        notes: sentences about columns without scores.
    """
    by_seed = [{column.label: column for column in columns} for _, columns in judged]
    return {
        "base": base.id,
        "base_held": describe_weights(base),
        "notes": notes,
        "columns": COLUMNS,
        "further": FURTHER_COLUMNS,
        "measures": compute_measures(by_seed),
        "verdict": find_verdict(by_seed),
        "seeds": [
            {
                "seed": str(seed),
                "diff": [_diff_texts(columns[0], other) for other in columns[1:]],
                **comparison_view(columns),
            }
            for seed, columns in judged
        ],
    }


def _judge_column(
    column: ComparedRun, base: LoadedModel, tell: EventCallback, stopped: threading.Event
) -> tuple[ComparedRun, list[str]]:
    label, trace = column.label, column.trace
    if stopped.is_set():
        return column, [Message("{label} was not judged: it was stopped.", label=label)]
    try:
        writer = None
        if not trace.is_on_server:
            source, weights = Source.parse(trace.model.id), weights_from_info(trace.model)
            writer = ModelLoader(stopped, tell)(source, weights)
        scores = run_in_thread(partial(score_trace, trace, base, writer, stopped, tell))
    except Cancelled:
        return column, [Message("{label} was not judged: it was stopped.", label=label)]
    except Exception as error:  # A failed scoring must not lose the text.
        return column, [
            Message("{label} was not judged: {error}", label=label, error=error_message(error))
        ]
    note = Message(
        "{label}: the tokenizer of {name} split this text again to judge it. Token counts "
        "are from that split.",
        label=label,
        name=base.name,
    )
    pieces = tuple(base.pieces[i] for i in scores.token_ids)
    return add_scores(column, scores, pieces), [note] if scores.recut else []


def add_scores(column: ComparedRun, scores: Scores, pieces: tuple[str, ...]) -> ComparedRun:
    """Return a column with the base model's scores of its text.

    Args:
        column: the run.
        scores: the base model's scores, one value per token of ``pieces``.
        pieces: the texts of the tokens as the base model's tokenizer splits them.
    """
    return dataclasses.replace(
        column,
        mean_logprob=scores.mean_logprob,
        perplexity=scores.perplexity,
        logprobs=scores.logprobs,
        entropies=scores.entropies,
        pieces=pieces,
    )


def _diff_texts(first: ComparedRun, other: ComparedRun) -> dict[str, Any]:
    """Return the token diff of two columns: parts of (kind, first pieces, other pieces)."""
    # Ids compare only if both texts come from the same tokenizer.
    by_id = has_comparable_ids([first.trace, other.trace])
    a, b = (output_tokens(c.trace, by_id=by_id) for c in (first, other))
    left, right = (output_tokens(c.trace, by_id=False) for c in (first, other))
    parts = [[e.kind, left[e.a0 : e.a1], right[e.b0 : e.b1]] for e in diff_tokens(a, b)]
    return {"a": first.label, "b": other.label, "parts": parts}
