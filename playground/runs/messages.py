"""The messages that draw a run while it decodes, made of its events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from engine.errors import BusyError, StoppedError
from engine.messages import Message
from engine.run.progress import format_evictions, format_restart
from engine.trace.events import (
    Failed,
    Finished,
    Loading,
    RunReplaced,
    Started,
    StepRecorded,
    TextDelta,
)
from engine.trace.json_io import step_to_dict, to_dict, trace_header
from engine.trace.records import Step, Trace
from playground.forms.run_views import trace_visuals
from visualizers import Summaries, start_summaries, summarize_trace

if TYPE_CHECKING:
    from engine import DecodeRequest
    from playground.jobs.resumed_run import ResumedRun

_FINISH_FIELDS = (
    "outputs",
    "metrics",
    "timing",
    "notes",
    "pieces",
    "emitted",
    "grammar",
    "thinking",
)
_SERVED_FIELDS = ("served", "eos_token_ids", "special_token_ids")
"""What only the whole answer of a server tells."""


def restart_message(sentence: str, request: DecodeRequest, run_id: str) -> dict[str, Any]:
    """Return the last message of a run that restarts under another id."""
    return {"kind": "fail", "error": sentence, "strategy": request.strategy, "anew": run_id}


def error_flags(error: BaseException) -> dict[str, bool]:
    """Return flags of an error: ``stopped`` by the user, or ``again`` if a retry may succeed."""
    if isinstance(error, StoppedError):
        return {"stopped": True}
    return {"again": True} if isinstance(error, BusyError) else {}


class MessageWriter:
    """Converts the events of one run to messages, with the view data of every step.

    Args:
        request: What is decoded.
        remade: The stored part of a run that is repeated.
    """

    def __init__(self, request: DecodeRequest, remade: ResumedRun | None = None) -> None:
        self.request = request
        self.summaries: Summaries | None = None
        self.last: Step | None = None
        if remade is not None and remade.header is not None:
            # A view of a step may show earlier steps, so the stored ones are added first.
            self.summaries = self._new_summaries(remade.header)
            for self.last in remade.steps:
                self.summaries.add(self.last)
        self.left: dict[str, tuple[str, ...]] = {}

    def messages(self, events: list[Any]) -> Iterator[dict[str, Any]]:
        """Convert a batch of events to messages; its steps and texts share one delta."""
        delta: dict[str, Any] = _empty_delta()
        for event in events:
            match event:
                case Loading():
                    self.left[event.model] = format_evictions(event)
                case Started(header):
                    yield self.start_message(header)
                case RunReplaced(run_id, same):
                    yield from _skip_empty(delta)
                    delta = _empty_delta()
                    self.last = None
                    yield restart_message(format_restart(same), self.request, run_id)
                case StepRecorded(step, pieces):
                    self.last = step
                    delta["steps"].append(step_to_dict(step))
                    delta["shown"].append(self.summaries.add(step) if self.summaries else {})
                    delta["pieces"] |= {str(key): piece for key, piece in pieces.items()}
                case TextDelta(sequence, keep, text):
                    delta["texts"].append([sequence, keep, text])
                case Finished(trace):
                    yield from _skip_empty(delta)
                    rest = _finish_values(trace, self.left) | self._updated_last_step(trace)
                    delta = {"kind": "finish", "rest": rest}
                case Failed(error):
                    yield from _skip_empty(delta)
                    strategy = self.request.strategy
                    delta = {"kind": "fail", "error": str(error), "strategy": strategy}
                    delta |= error_flags(error)
        yield from _skip_empty(delta)

    def _updated_last_step(self, trace: Trace) -> dict[str, Any]:
        """Return the last step again if a measurement was added after it was sent, else nothing."""
        if self.last is None or trace.steps[-1] == self.last:
            return {}
        shown = summarize_trace(trace, trace_visuals(trace))[-1]
        return {"last": {"step": step_to_dict(trace.steps[-1]), "shown": shown}}

    def _new_summaries(self, header: Trace) -> Summaries:
        return start_summaries(header, trace_visuals(header))

    def start_message(self, header: Trace) -> dict[str, Any]:
        """Return the first message of a run."""
        self.summaries = self._new_summaries(header)
        # The trace of a server's run names no strategy of the page, which shows it in the tab that asked.
        return {
            "kind": "start",
            "strategy": self.request.strategy,
            "header": _header_values(header),
        }


def _empty_delta() -> dict[str, Any]:
    return {"kind": "delta", "steps": [], "shown": [], "pieces": {}, "texts": []}


def _skip_empty(delta: dict[str, Any]) -> Iterator[dict[str, Any]]:
    if delta["kind"] != "delta" or delta["steps"] or delta["texts"]:
        yield delta


def _finish_values(trace: Trace, left: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return the trace fields known at the end, with the notes on models unloaded for this run."""
    more = () if trace.served is None else _SERVED_FIELDS
    rest = to_dict({k: getattr(trace, k) for k in (*_FINISH_FIELDS, *more)})
    faults = [Message("{fault}.", fault=one) for of_one in left.values() for one in of_one]
    return rest | {"notes": [*trace.notes, *faults]}


def _header_values(header: Any) -> dict[str, Any]:
    fields = trace_header(header)
    return {**fields, "fields": [*[k for k in fields if k != "schema"], "steps", "outputs"]}
