"""Requests run to their end: the trace, or the error."""

from __future__ import annotations

from engine import DecodeRequest, decode
from engine.errors import EngineError
from engine.trace import json_io
from engine.trace.events import Failed, Finished
from engine.trace.records import Trace


def finished(request: DecodeRequest) -> Trace:
    """Return the trace of a request; an error is raised."""
    *_, last = decode(request)
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
