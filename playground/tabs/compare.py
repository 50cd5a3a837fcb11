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
from engine.models import files
from engine.models.loading import LoadedModel
from engine.models.weights import weights_of
from engine.one_shot_thread import aside
from engine.run.jobs import Work
from engine.run.preparation import Models
from engine.run.request import DecodeRequest, check
from engine.run.scheduler import Tell
from engine.run.weights import held_alone
from engine.statistics.text_divergence import difference, same_ids, tokens_of
from engine.statistics.weights_summary import held_as
from engine.strategies import STRATEGIES
from engine.trace.events import Checking, Failed, Finished, Started, StepRecorded
from engine.trace.records import ModelInfo, Trace
from playground.forms.form import check_here, form_request, one_models_weights
from playground.forms.visitor_media import VISITOR
from playground.jobs.background_jobs import ENDED, outliving
from playground.jobs.progress import aloud
from playground.jobs.zerogpu import in_line, on_gpu
from playground.runs.stream import stream
from playground.shell.elements import OF_A_PRESS, OF_THE_PAGE, both, drawn, sent_with
from playground.shell.guard import sentence
from playground.shell.scripts import receiving
from visualizers.compare.summary import Column, Texts, view

T = TypeVar("T")
_MAX_NUMBER = 2**31
_KEPT = 64


class Comparison:
    """The state of one comparison: current work, finished traces, and whether it was stopped."""

    def __init__(self) -> None:
        self.id = uuid.uuid4().hex
        self.stopped = threading.Event()
        self.run: Work | None = None
        self.traces: list[Trace | None] = []
        self.texts = Texts()

    def begin(self, run: Work) -> None:
        """Register the run of the next column; cancel it if the comparison was stopped."""
        self.traces.append(None)
        self.work(run)
        if self.stopped.is_set():
            run.cancel()

    def work(self, work: Work) -> None:
        """Set the work that ``stop`` cancels."""
        self.run = work

    def see(self, events: list[Any]) -> dict[str, Any]:
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
        return {"parting": self.texts.parting()}

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
        page = drawn(
            "compare",
            receiving("p.compare(element.querySelector('.dp-compare'), trigger)"),
            '<div class="dp-compare"></div>',
        )
    page.input(
        on_gpu(outliving(_start, _unknown)),
        None,
        [bus, page],
        **in_line(queue),
        **OF_A_PRESS,
    )
    page.stop(_stop, None, None, concurrency_limit=None, **OF_THE_PAGE)


def _stop(event: gr.EventData) -> None:
    comparison = _ACTIVE.get(str(sent_with(event).get("id", ""))[:64])
    if comparison is not None:
        comparison.stop()


def _start(asked: dict[str, Any]) -> Generator[tuple[Any, Any], None, None]:
    yield from both(compare(asked))


def _unknown(asked: dict[str, Any]) -> tuple[Any, Any]:
    refused = {"kind": "refused", "number": _number(asked), "id": "", "error": ENDED}
    return next(both([(None, refused)]))


def _number(asked: Any) -> int:
    """Return the page's number of a comparison, or 0 if it is missing or not valid."""
    number = asked.get("number") if isinstance(asked, dict) else None
    # Not isinstance: a bool is an int.
    return number if type(number) is int and 0 <= number < _MAX_NUMBER else 0


def compare(asked: Any) -> Iterator[tuple[str | None, dict[str, Any] | None]]:
    """Decode the columns one after another, then score all texts with the base model.

    Args:
        asked: what the page sent: ``number``, ``prompt`` or ``messages`` with ``template``,
            ``seed``, and ``columns``, each with its models, weight parameters and media; ``base``,
            the scoring model, and ``base_weights``.

    Yields:
        (run message or None, message for the tab or None). Errors become messages; it never raises.
    """
    comparison = Comparison()
    number = _number(asked)
    about = {"number": number, "id": comparison.id}
    try:
        requests = requests_of(asked)
        # Check the base model's name and weights before anything is decoded.
        named = asked.get("base") or requests[0].model
        files.check_name(named)
        held = held_alone(one_models_weights(asked.get("base_weights") or {}), "compare")
    except BaseException as error:
        yield None, {"kind": "refused", **about, "error": sentence(error)}
        return
    _ACTIVE[comparison.id] = comparison
    while len(_ACTIVE) > _KEPT:
        _ACTIVE.pop(next(iter(_ACTIVE)))
    try:
        yield None, {"kind": "begin", **about}
        # The base model has its own weights setting: columns may load one model at several
        # precisions.
        base = yield from _aloud(about, comparison, partial(_base, named, held))
        # Columns in parallel would share the processor, and their timings would mean nothing.
        for i, request in enumerate(requests):
            if comparison.stopped.is_set():
                break
            says = f"Decoding column {LABELS[i]}, {i + 1} of {len(requests)}…"
            yield None, {"kind": "progress", **about, "phase": "decoding", "says": says}
            for text in stream(request, key=f"compare-{number}-{i}", follow=comparison):
                yield text, None
        found = yield from _aloud(about, comparison, partial(judged, comparison, base))
        yield None, {"kind": "figures", **about, **found}
    # The page is gone: stop the run, too.
    except GeneratorExit:
        comparison.stop()
        raise
    except BaseException as error:
        yield None, {"kind": "refused", **about, "error": sentence(error)}
    finally:
        _ACTIVE.pop(comparison.id, None)


def _base(name: str, weights: WeightsParams, tell: Tell, stopped: threading.Event) -> LoadedModel:
    return Models(stopped, tell)(name, weights=weights)


def _aloud(
    about: dict[str, Any], comparison: Comparison, do: Callable[[Tell, threading.Event], T]
) -> Generator[tuple[None, dict[str, Any]], None, T]:
    """Run ``do`` as the comparison's current work; yield its progress and return its result."""
    news = aloud(do, comparison.work)
    while True:
        try:
            yield None, {"kind": "progress", **about, **next(news)}
        except StopIteration as done:
            return done.value


def requests_of(asked: Any) -> list[DecodeRequest]:
    """Read and check one request per column.

    Raises:
        ParameterError: a value is not valid; the sentence names the parameter.
    """
    columns = asked.get("columns") if isinstance(asked, dict) else None
    if not isinstance(columns, list) or not 2 <= len(columns) <= len(LABELS):
        count = len(columns) if isinstance(columns, list) else columns
        raise ParameterError("columns", count, f"compare 2 to {len(LABELS)} columns")
    shared = {name: asked.get(name) for name in ("prompt", "messages", "template", "seed", VISITOR)}
    return [_request(column, shared) for column in columns]


def _request(column: Any, shared: dict[str, Any]) -> DecodeRequest:
    if not isinstance(column, dict):
        raise ParameterError("columns", column, "each must be an object")
    request = check_here(form_request({**column, **shared}))
    check(request)
    return request


def judged(
    comparison: Comparison, base: LoadedModel, tell: Tell, stopped: threading.Event
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
            notes.append(f"{label} has no text to judge.")
            continue
        tell(Checking(done, len(traces), f"texts read by {base.name}"))
        column, note = _column(label, trace, base, tell, stopped)
        columns.append(column)
        notes += note
    return figures_of(base.info(), columns, notes)


def figures_of(base: ModelInfo, columns: list[Column], notes: list[str]) -> dict[str, Any]:
    """Return table, curves and differences of scored columns as JSON values.

    Args:
        base: the model that scored them.
        columns: the scored columns, the first one being the reference of all differences.
        notes: sentences about columns without scores.
    """
    return {
        "base": base.id,
        "base_held": held_as(base),
        "notes": notes,
        "diff": [_edits(columns[0], other) for other in columns[1:]],
        **view(columns),
    }


def _column(
    label: str, trace: Trace, base: LoadedModel, tell: Tell, stopped: threading.Event
) -> tuple[Column, list[str]]:
    title = STRATEGIES[trace.strategy].title
    if stopped.is_set():
        return Column(label, title, trace), [f"{label} was not judged: it was stopped."]
    try:
        writer = Models(stopped, tell)(trace.model.id, weights=weights_of(trace.model))
        scores = aside(partial(score_trace, trace, base, writer, stopped, tell))
    except Cancelled:
        return Column(label, title, trace), [f"{label} was not judged: it was stopped."]
    except Exception as error:  # A failed scoring must not lose the text.
        return Column(label, title, trace), [f"{label} was not judged: {sentence(error)}"]
    note = (
        f"{label}: its text was cut anew by the tokenizer of {base.name} to be judged; the counts "
        "of tokens are its own."
    )
    pieces = tuple(base.pieces[i] for i in scores.token_ids)
    return scored(label, trace, scores, pieces), [note] if scores.recut else []


def scored(label: str, trace: Trace, scores: Scores, pieces: tuple[str, ...]) -> Column:
    """Return a column with the base model's scores of its text.

    Args:
        label: the column's letter.
        trace: its run.
        scores: the base model's scores, one value per token of ``pieces``.
        pieces: the texts of the tokens as the base model's tokenizer splits them.
    """
    return Column(
        label,
        STRATEGIES[trace.strategy].title,
        trace,
        scores.mean_logprob,
        scores.perplexity,
        scores.logprobs,
        scores.entropies,
        pieces,
    )


def _edits(first: Column, other: Column) -> dict[str, Any]:
    """Return the token diff of two columns: parts of (kind, first pieces, other pieces)."""
    # Ids compare only if both texts come from the same tokenizer.
    by_id = same_ids([first.trace, other.trace])
    a, b = (tokens_of(c.trace, by_id=by_id) for c in (first, other))
    left, right = (tokens_of(c.trace, by_id=False) for c in (first, other))
    parts = [[e.kind, left[e.a0 : e.a1], right[e.b0 : e.b1]] for e in difference(a, b)]
    return {"a": first.label, "b": other.label, "parts": parts}
