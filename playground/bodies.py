"""What the body of a request may hold: Gradio would print a wrong one, and fetch what it names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from playground.media import KINDS
from playground.uploads import UPLOADS

CALL, JOIN = "/gradio_api/call/", "/gradio_api/queue/join"
_FIELDS = ("prompt", "model", "params", "seed")
_WANTED = "data must be a list of prompt, model, params and seed."
MAX_SESSION_CHARS = 64
_MAX_DEPTH = 100
_TOO_DEEP = "The request nests too deep."
TOO_LARGE = "The request is too large."
_FILE = "gradio.FileData"


def refusal(path: str, body: bytes, inputs: Mapping[int, int]) -> tuple[int, str] | None:
    """Return the status and the sentence with which a request is refused, None where it may go on.

    Args:
        path: where it goes.
        body: what it brings.
        inputs: how many values each event of the page takes.
    """
    is_call = path.startswith(CALL) and path.removeprefix(CALL) in STRATEGIES
    if len(body) > SETTINGS.max_request_bytes and not (is_call and _brings(body)):
        return 413, TOO_LARGE
    if not is_call and path.rstrip("/") != JOIN:
        return None
    try:
        asked = json.loads(body)
    except RecursionError:
        return 400, _TOO_DEEP
    except ValueError:
        return None  # Gradio says that this is no JSON
    if not isinstance(asked, dict):
        return None
    wrong = _odd_value(asked)
    if wrong:
        return wrong
    data = asked.get("data")
    if is_call:
        return None if isinstance(data, list) and len(data) == len(_FIELDS) else (422, _WANTED)
    return _odd_join(asked, data, inputs)


def _brings(body: bytes) -> bool:
    """Return whether a call brings a picture or a sound along, and so may be large."""
    try:
        prompt = json.loads(body)["data"][0]
    except (RecursionError, ValueError, LookupError, TypeError):
        return False
    return isinstance(prompt, dict) and any(isinstance(prompt.get(kind), str) for kind in KINDS)


def _odd_join(
    asked: dict[str, Any], data: Any, inputs: Mapping[int, int]
) -> tuple[int, str] | None:
    if len(str(asked.get("session_hash", ""))) > MAX_SESSION_CHARS:
        return 400, "The session is not valid."
    event = asked.get("fn_index")
    if type(event) is not int or event not in inputs:
        return 404, "There is no such event."
    if not isinstance(data, list) or len(data) != inputs[event]:
        return 422, f"data must be a list of {inputs[event]} values."
    return None


def _odd_value(asked: dict[str, Any]) -> tuple[int, str] | None:
    """Return why something within a body is refused: it nests too deep, or names a file of nobody's upload."""
    for value, depth in _parts(asked):
        if depth > _MAX_DEPTH:
            return 400, _TOO_DEEP
        about = value.get("meta") if isinstance(value, dict) else None
        if isinstance(about, dict) and about.get("_type") == _FILE and not _is_upload(value):
            return 422, "A file must be one that was uploaded here."
    return None


def _parts(whole: Any) -> Iterator[tuple[Any, int]]:
    """Yield every object and list of a value, and how deep it stands."""
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
        return isinstance(path, str) and UPLOADS.holds(Path(path))
    except (OSError, ValueError):  # no path at all
        return False
