"""Requests run to their end: the trace, or the error."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from engine import DecodeRequest, decode
from engine.errors import EngineError
from engine.run.decoding import DecodeRun
from engine.run.visitor import Visitor
from engine.settings import SETTINGS
from engine.statistics.text_divergence import (
    common_prefix_length,
    has_comparable_ids,
    output_tokens,
)
from engine.trace import json_io
from engine.trace.events import Event, Failed, Finished
from engine.trace.records import Trace
from tests.helpers.visitors import asking_as


def finished(request: DecodeRequest) -> Trace:
    """Return the trace of a request; an error is raised."""
    return trace_of_run(decode(request))


def finished_together(requests: Sequence[DecodeRequest]) -> list[Trace]:
    """Return the traces of requests that are made at once, and share forward passes where they can.

    Shared passes give the tokens of a run alone, for a fraction of its work.
    """
    with ThreadPoolExecutor(SETTINGS.max_shared_runs) as threads:
        return list(threads.map(finished, requests))


def trace_of_run(run: Iterable[Event]) -> Trace:
    """Return the trace with which a run ends; an error is raised."""
    *_, last = run
    if isinstance(last, Failed):
        raise last.error
    assert isinstance(last, Finished)
    return last.trace


def failed(request: DecodeRequest) -> EngineError:
    """Return the error a request ends with."""
    *_, last = decode(request)
    assert isinstance(last, Failed), "the request was accepted"
    return last.error


def reread(request: DecodeRequest) -> Trace:
    """Return the trace of a request as a file would hold it."""
    return json_io.loads(json_io.dumps(finished(request)))


def parts_at(traces: Sequence[Trace]) -> int | None:
    """Return the first place where the outputs of whole runs differ, None when they are the same."""
    by_id = has_comparable_ids(traces)
    texts = [output_tokens(trace, by_id=by_id) for trace in traces]
    common, part = common_prefix_length(texts, [True] * len(texts))
    return common if part else None


def without_time(trace: Trace) -> tuple[list[Any], Any]:
    """Return the steps and outputs of a trace, without what depends on the machine's speed or load."""
    steps = [dataclasses.replace(s, elapsed_s=0.0) for s in trace.steps]
    return [_untimed(dataclasses.asdict(s)) for s in steps], trace.outputs


def _untimed(value: Any) -> Any:
    if isinstance(value, dict):
        timed = ("processor_share", "others")
        kept = {k: v for k, v in value.items() if not k.endswith("_s") and k not in timed}
        return {k: _untimed(v) for k, v in kept.items()}
    if isinstance(value, (list, tuple)):
        return [_untimed(item) for item in value]
    return value


def decode_as(visitor: Visitor, request: DecodeRequest) -> DecodeRun:
    """Begin a run for a visitor."""
    with asking_as(visitor):
        return decode(request)
