"""Export in the browser: code files of a run, and the check that they give the same tokens."""

from __future__ import annotations

import base64
import json
from typing import Any

import gradio as gr

from engine.errors import EngineError, ExportError
from engine.export.files import archive, export_files
from engine.export.verify import verify
from engine.trace.json_io import trace_from_dict
from engine.trace.records import Trace
from playground.guard import sentence
from playground.scripts import receiving

_MAX_ID = 2**31


def build_replies() -> Any:
    """Return the hidden element through which the page asks for code and is answered."""
    replies = gr.HTML(
        "",
        visible="hidden",
        elem_id="dp-export-bus",
        html_template="<span></span>",
        js_on_load=receiving("p.ask((data) => trigger('input', data))"),
    )
    replies.input(
        _answer,
        None,
        replies,
        concurrency_limit=4,
        api_visibility="private",
        show_progress="hidden",
    )
    return replies


def reply(number: Any, **values: Any) -> str:
    """Return one message for the page; ``number`` is that of its question."""
    known = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < _MAX_ID
    return json.dumps({"id": number if known else 0, **values}, allow_nan=False)


def _answer(event: gr.EventData) -> str:
    asked = event._data if isinstance(event._data, dict) else {}
    number = asked.get("id")
    try:
        return reply(number, **answer(asked.get("action"), asked.get("trace")))
    except BaseException as error:
        return reply(number, error=sentence(error))


def answer(action: Any, data: Any) -> dict[str, Any]:
    """Return what the page asked for.

    Args:
        action: ``files`` (texts and a zip archive) or ``verify``.
        data: a trace as JSON values; its steps may be left out.

    Raises:
        EngineError: the trace is not valid or cannot be written as code.
    """
    trace = trace_of(data)
    if action == "files":
        files = export_files(trace)
        packed = base64.b64encode(archive(files)).decode()
        return {"files": {n: t for n, t in files.items() if "/" not in n}, "zip": packed}
    if action == "verify":
        verification = verify(trace)
        return {"equal": verification.equal, "seconds": verification.seconds, "message": verification.message}
    raise ExportError("There is no such export.")


def trace_of(data: Any) -> Trace:
    """Return the checked trace of what a page sent.

    Raises:
        EngineError: one sentence naming the place.
    """
    try:
        # What a page sends is held to the rules of a file: no odd numbers, no odd keys.
        json.dumps(data, allow_nan=False)
    except (ValueError, TypeError, RecursionError):
        raise ExportError("The run is not valid JSON.") from None
    try:
        return trace_from_dict(data)
    except RecursionError:
        raise EngineError("The run nests too deep.") from None
