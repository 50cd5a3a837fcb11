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
from playground.forms.visitor_media import KINDS
from playground.storage.uploads import UPLOADS

CALL_PATH, JOIN_PATH = "/gradio_api/call/", "/gradio_api/queue/join"
_FIELDS = ("prompt", "model", "params", "seed")
_DATA_FORM = "data must be a list of prompt, model, params and seed."
MAX_SESSION_CHARS = 64
_MAX_DEPTH = 100
_TOO_DEEP = "The request nests too deep."
TOO_LARGE = "The request is too large."
_FILE_TYPE = "gradio.FileData"


def find_request_error(path: str, body: bytes, inputs: Mapping[int, int]) -> tuple[int, str] | None:
    """Return the HTTP status and sentence that refuse a request, or None if it is valid.

    Args:
        path: the request's path.
        body: its whole body.
        inputs: number of input values of each event of the page, by ``fn_index``.
    """
    # Only programs send files inside a call; the page uploads them by a request of their own.
    is_call = path.startswith(CALL_PATH) and path.removeprefix(CALL_PATH) in STRATEGIES
    if len(body) > SETTINGS.max_request_bytes and not (is_call and _has_media(body)):
        return 413, TOO_LARGE
    if not is_call and path.rstrip("/") != JOIN_PATH:
        return None
    try:
        asked = json.loads(body)
    except RecursionError:
        return 400, _TOO_DEEP
    except ValueError:
        return None  # Gradio itself reports invalid JSON.
    if not isinstance(asked, dict):
        return None
    wrong = _find_content_error(asked)
    if wrong:
        return wrong
    data = asked.get("data")
    if is_call:
        return None if isinstance(data, list) and len(data) == len(_FIELDS) else (422, _DATA_FORM)
    return _find_join_error(asked, data, inputs)


def _has_media(body: bytes) -> bool:
    """Return whether a call contains an image or audio file; only such a call may be large."""
    try:
        prompt = json.loads(body)["data"][0]
    except (RecursionError, ValueError, LookupError, TypeError):
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
    """Return the error of a body that nests too deep or names a file not uploaded here."""
    for value, depth in _walk_values(asked):
        if depth > _MAX_DEPTH:
            return 400, _TOO_DEEP
        # Gradio opens the path or address of such an object as a file.
        about = value.get("meta") if isinstance(value, dict) else None
        if isinstance(about, dict) and about.get("_type") == _FILE_TYPE and not _is_upload(value):
            return 422, "A file must be one that was uploaded here."
    return None


def _walk_values(whole: Any) -> Iterator[tuple[Any, int]]:
    """Yield every object and list of a JSON value with its depth, from 1."""
    # A stack instead of recursion: deep JSON would exceed Python's recursion limit.
    left = [(whole, 1)]
    while left:
        value, depth = left.pop()
        yield value, depth
        if depth > _MAX_DEPTH:
            return
        inside = value.values() if isinstance(value, dict) else value
        left += [(part, depth + 1) for part in inside if isinstance(part, dict | list)]


def _is_upload(value: dict[str, Any]) -> bool:
    path = value.get("path")
    try:
        return isinstance(path, str) and UPLOADS.contains_path(Path(path))
    except (OSError, ValueError):  # not a valid path
        return False
