"""The JSON documents of a recorded answer: one document, a stream of events, or one per line."""

from __future__ import annotations

import re

from engine.errors import TraceError
from engine.trace.checks import decode_text, parse_json_strict
from engine.trace.value_types import JsonObject, JsonValue

MAX_BYTES = 50_000_000
"""Most bytes of an answer, decompressed."""
_END = "[DONE]"
_EVENT_LINE = re.compile(r"(?:data|event|id|retry)?:")


def read_document(data: bytes, max_bytes: int = MAX_BYTES) -> tuple[JsonValue, bool]:
    """Return the JSON of a file, the events of a stream as a list, and whether it was a stream.

    Raises:
        TraceError: the file is too large, not UTF-8, no JSON, or cut off.
    """
    text = decode_text(data, max_bytes).lstrip("\ufeff").strip().replace("\r\n", "\n")
    if _EVENT_LINE.match(text):
        return [*_read_stream(text)], True
    # The first lines are enough: a long document is not split.
    lines = [line for line in text.split("\n", 2) if line.strip()]
    # Ollama streams one object per line. A document that is laid out has none that ends its lines.
    if len(lines) > 1 and all(line.startswith("{") for line in lines[:2]):
        return [*_parse_events([line for line in text.split("\n") if line.strip()])], True
    return parse_json_strict(text), False


def list_events(value: JsonValue) -> list[JsonObject]:
    """Return the JSON objects of an answer, which may be one object or a list of them.

    Raises:
        TraceError: it is something else.
    """
    return [_require_object(item) for item in (value if isinstance(value, list) else [value])]


def _read_stream(text: str) -> list[JsonObject]:
    """Return the objects of the events of a server-sent stream."""
    bodies: list[str] = []
    ended = False
    for event in re.split(r"\n{2,}", text):
        lines = event.split("\n")
        # One space after the colon belongs to the format of the stream.
        body = "\n".join(line[5:].removeprefix(" ") for line in lines if line.startswith("data:"))
        if not body.strip():
            continue
        if ended:
            raise TraceError("The stream goes on after its end: it holds more than one answer.")
        ended = body.strip() == _END
        if not ended:
            # Some tools drop the empty lines between events.
            bodies += body.split("\n") if body.count("\n{") else [body]
    return _parse_events(bodies)


def _parse_events(bodies: list[str]) -> list[JsonObject]:
    found: list[JsonObject] = []
    for number, body in enumerate(bodies, start=1):
        if body.strip() == _END:
            continue
        try:
            found.append(_require_object(parse_json_strict(body)))
        except TraceError as error:
            if number == len(bodies):
                raise TraceError(
                    "The stream is cut off in its last event, number {n}.", n=number
                ) from None
            raise TraceError(
                "Event {n} of the stream cannot be read: {why}", n=number, why=str(error)
            ) from None
    return found


def _require_object(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        raise TraceError("The file is no answer of a server: it is no JSON object.")
    return value
