"""Validation of request bodies before Gradio reads them.

Gradio logs the values of a malformed request, and fetches any address that a value names as a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.messages import Message
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from engine.trace.json_scan import JsonLimitError, JsonLimits, JsonSizeError, check_json
from playground.forms.visitor_media import KINDS
from playground.storage.uploads import UPLOADS

CALL_PATH, JOIN_PATH = "/gradio_api/call/", "/gradio_api/queue/join"
_FIELDS = ("prompt", "model", "params", "seed")
_DATA_FORM = "data must be a list of prompt, model, params and seed."
MAX_SESSION_CHARS = 64
TOO_LARGE = "The request is too large."
_FILE_TYPE = "gradio.FileData"
_LIMITS = JsonLimits(depth=100, containers=50_000, values=500_000)
"""A question may send a recorded run."""
_CALL_LIMITS = JsonLimits(100, 10_000, 500_000, SETTINGS.max_request_bytes)


def find_request_error(path: str, body: bytes, inputs: Mapping[int, int]) -> tuple[int, str] | None:
    """Return the HTTP status and sentence that refuse a request, or None if it is valid.

    Args:
        path: the request's path.
        body: its whole body.
        inputs: number of input values of each event of the page, by ``fn_index``.
    """
    # Only programs send files inside a call; the page uploads them by a request of their own.
    is_call = path.startswith(CALL_PATH) and path.removeprefix(CALL_PATH) in STRATEGIES
    if len(body) > SETTINGS.max_request_bytes and not is_call:
        return 413, TOO_LARGE
    try:
        check_json(body, _CALL_LIMITS if is_call else _LIMITS)
    except JsonLimitError as error:
        status = 413 if isinstance(error, JsonSizeError) else 400
        return status, error.to_message(Message("The request"))
    if not is_call and path.rstrip("/") != JOIN_PATH:
        return None
    try:
        asked = json.loads(body)
    except ValueError:
        return None  # Gradio itself reports invalid JSON.
    if len(body) > SETTINGS.max_request_bytes and not _has_media(asked):
        return 413, TOO_LARGE
    if not isinstance(asked, dict):
        return None
    wrong = _find_content_error(asked)
    if wrong:
        return wrong
    data = asked.get("data")
    if is_call:
        return None if isinstance(data, list) and len(data) == len(_FIELDS) else (422, _DATA_FORM)
    return _find_join_error(asked, data, inputs)


def _has_media(asked: Any) -> bool:
    """Return whether a call contains an image or audio file; only such a call may be large."""
    try:
        prompt = asked["data"][0]
    except (LookupError, TypeError):
        return False
    return isinstance(prompt, dict) and any(isinstance(prompt.get(kind), str) for kind in KINDS)


def _find_join_error(
    asked: dict[str, Any], data: Any, inputs: Mapping[int, int]
) -> tuple[int, str] | None:
    if len(str(asked.get("session_hash", ""))) > MAX_SESSION_CHARS:
        return 400, "The session is not valid."
    event = asked.get("fn_index")
    # Not isinstance: a bool is an int.
    if type(event) is not int or event not in inputs:
        return 404, "There is no such event."
    if not isinstance(data, list) or len(data) != inputs[event]:
        return 422, Message("data must be a list of {inputs} values.", inputs=inputs[event])
    return None


def _find_content_error(asked: dict[str, Any]) -> tuple[int, str] | None:
    """Return the error of a body that names a file not uploaded here."""
    for value in _walk_values(asked):
        # Gradio opens the path or address of such an object as a file.
        about = value.get("meta") if isinstance(value, dict) else None
        if isinstance(about, dict) and about.get("_type") == _FILE_TYPE and not _is_upload(value):
            return 422, "A file must be one that was uploaded here."
    return None


def _walk_values(whole: Any) -> Iterator[Any]:
    """Yield every object and list of a JSON value."""
    left = [whole]
    while left:
        value = left.pop()
        yield value
        inside = value.values() if isinstance(value, dict) else value
        left += [part for part in inside if isinstance(part, dict | list)]


def _is_upload(value: dict[str, Any]) -> bool:
    path = value.get("path")
    try:
        return isinstance(path, str) and UPLOADS.contains_path(Path(path))
    except (OSError, ValueError):  # not a valid path
        return False
