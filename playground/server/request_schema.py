"""Validation of request bodies before Gradio reads them.

Gradio logs the values of a malformed request, and fetches any address that a value names as a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from engine.messages import Message
from engine.settings import SETTINGS
from engine.trace.json_scan import JsonLimitError, JsonLimits, JsonSizeError, check_json
from playground.forms.visitor_media import KINDS
from playground.server.api_schema import CALL_FIELDS, call_fields
from playground.storage.uploads import UPLOADS

CALL_PATH, JOIN_PATH = "/gradio_api/call/", "/gradio_api/queue/join"
_NAMED_PATH = CALL_PATH + "v2/"
"""Where a call gives its inputs by name."""
MAX_SESSION_CHARS = 64
TOO_LARGE = "The request is too large."
_FILE_TYPE = "gradio.FileData"
_LIMITS = JsonLimits(depth=100, containers=50_000, values=500_000)
"""A question may send a recorded run."""
_CALL_LIMITS = JsonLimits(100, 10_000, 500_000, SETTINGS.max_request_bytes)


Refusal = tuple[int, str]
"""HTTP status and sentence that refuse a request."""


def check_request(
    path: str, body: bytes, inputs: Mapping[int, int]
) -> tuple[Refusal | None, bytes]:
    """Return what refuses a request, None if it is valid, and the body to pass on.

    Args:
        path: the request's path.
        body: its whole body.
        inputs: number of input values of each event of the page, by ``fn_index``.
    """
    # Only programs send files inside a call; the page uploads them by a request of their own.
    is_named = path.startswith(_NAMED_PATH)
    fields, least = call_fields(path.removeprefix(_NAMED_PATH if is_named else CALL_PATH))
    is_call = bool(fields)
    refused = _find_size_error(body, is_call=is_call)
    if refused or not (is_call or path.rstrip("/") == JOIN_PATH):
        return refused, body
    try:
        payload = json.loads(body)
    except ValueError:
        return None, body  # Gradio itself reports invalid JSON.
    if len(body) > SETTINGS.max_request_bytes and not _has_media(payload):
        return (413, TOO_LARGE), body
    if not isinstance(payload, dict):
        return None, body
    refused = _find_content_error(payload)
    if is_named and is_call:
        return refused or _find_names_error(payload, fields), body
    data = payload.get("data")
    if not is_call:
        return refused or _find_join_error(payload, data, inputs), body
    if refused or not isinstance(data, list) or not least <= len(data) <= len(fields):
        *others, last = fields[: max(least, 2)]
        form = Message("data must be a list of {names}.", names=f"{', '.join(others)} and {last}")
        return refused or (422, form), body
    # Gradio itself refuses a call by position that does not give every value.
    missing = [None] * (len(fields) - len(data))
    return None, json.dumps({**payload, "data": data + missing}).encode() if missing else body


def _find_names_error(payload: Mapping[str, Any], fields: Sequence[str]) -> Refusal | None:
    """Return what refuses a call by name; the first input is required."""
    if fields[0] in payload and set(payload) <= set(fields):
        return None
    listed = ", ".join(fields)
    return 422, f"The inputs are {listed}; the {fields[0]} is required."


def _find_size_error(body: bytes, *, is_call: bool) -> Refusal | None:
    """Return what refuses a body by its bytes, before it is parsed."""
    if len(body) > SETTINGS.max_request_bytes and not is_call:
        return 413, TOO_LARGE
    try:
        check_json(body, _CALL_LIMITS if is_call else _LIMITS)
    except JsonLimitError as error:
        status = 413 if isinstance(error, JsonSizeError) else 400
        return status, error.to_message(Message("The request"))
    return None


def _has_media(value: Any) -> bool:
    """Return whether a call contains an image or audio file; only such a call may be large."""
    if not isinstance(value, dict):
        return False
    data = value.get("data")
    named = dict(zip(CALL_FIELDS, data, strict=False)) if isinstance(data, list) else value
    prompt = named.get("prompt")
    given = [named, prompt] if isinstance(prompt, dict) else [named]
    return any(isinstance(fields.get(kind), str) for fields in given for kind in KINDS)


def _find_join_error(
    payload: dict[str, Any], data: Any, inputs: Mapping[int, int]
) -> Refusal | None:
    if len(str(payload.get("session_hash", ""))) > MAX_SESSION_CHARS:
        return 400, "The session is not valid."
    event = payload.get("fn_index")
    # Not isinstance: a bool is an int.
    if type(event) is not int or event not in inputs:
        return 404, "There is no such event."
    if not isinstance(data, list) or len(data) != inputs[event]:
        return 422, Message("data must be a list of {inputs} values.", inputs=inputs[event])
    return None


def _find_content_error(payload: dict[str, Any]) -> Refusal | None:
    """Return the error of a body that names a file not uploaded here."""
    for value in _walk_values(payload):
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
