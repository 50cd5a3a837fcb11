"""Opens what a person may have of a run: a trace, or the answer of a server."""

from __future__ import annotations

from pathlib import Path

from engine.endpoints.events import read_document
from engine.endpoints.fields import read_text
from engine.endpoints.read_answer import is_from_server
from engine.endpoints.request import Request
from engine.endpoints.to_trace import import_answer, trace_from_json
from engine.settings import SETTINGS
from engine.trace.json_io import read_trace_file, trace_from_dict
from engine.trace.records import Trace
from engine.trace.value_types import JsonObject

_PASTED_REQUEST, _PASTED_ANSWER = "request_text", "response_text"


def open_recording(path: str | Path) -> Trace:
    """Return the trace in a file, or that of a server's answer in it.

    Raises:
        TraceError: the file cannot be read, or is neither.
    """
    value, streamed = read_document(read_trace_file(path), SETTINGS.max_trace_bytes)
    if isinstance(value, dict) and _PASTED_ANSWER in value:
        return _open_pasted(value)
    # Anything else is refused as a trace.
    return (
        trace_from_json(value, Request())
        if streamed or is_from_server(value)
        else trace_from_dict(value)
    )


def _open_pasted(value: JsonObject) -> Trace:
    """Return the trace of two texts that the page sends together."""
    request = read_text(value.get(_PASTED_REQUEST), _PASTED_REQUEST)
    answer = read_text(value[_PASTED_ANSWER], _PASTED_ANSWER)
    return import_answer(answer.encode(), request.encode() or None)
