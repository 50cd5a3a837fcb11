"""Recognises the format of a recorded answer and reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeGuard

from engine.endpoints import native_formats, openai_format
from engine.endpoints.answer import Answer
from engine.endpoints.fields import read_object, read_text
from engine.errors import TraceError
from engine.messages import Message
from engine.trace.value_types import JsonObject, JsonValue

Reader = Callable[[Answer, JsonObject], None]
_FORMATS: tuple[tuple[Callable[[JsonObject], bool], Reader], ...] = (
    (openai_format.is_openai, openai_format.read_event),
    (native_formats.is_llamacpp, native_formats.read_llamacpp_event),
    (native_formats.is_ollama, native_formats.read_ollama_event),
    (native_formats.is_tgi, native_formats.read_tgi_event),
)
_TOKEN_LIST = "This is a list of tokens from a server's tokenizer; open the answer of a completion."
_OTHER_CALLS: Mapping[frozenset[str], str] = {
    frozenset(("tokens",)): _TOKEN_LIST,
    frozenset(("tokens", "count", "max_model_len", "token_strs")): _TOKEN_LIST,
    frozenset(
        ("content",)
    ): "This is a text from a server's tokenizer; open the answer of a completion.",
    frozenset(
        ("prompt",)
    ): "This is a prompt that a server prepared; open the answer of a completion.",
}
_MAX_SHOWN = 300


class AnswerReader:
    """Reads the JSON documents of one answer as they come.

    Attributes:
        answer: what was read so far.
    """

    def __init__(self) -> None:
        self.answer = Answer()
        self._reader: Reader | None = None
        self._ids: set[str] = set()

    def add(self, event: JsonObject) -> None:
        """Add a document.

        Raises:
            TraceError: it is an error of the server, the answer to another call, part of a second
                answer, or of an unknown shape.
        """
        _refuse_error(event)
        reader = _find_format(event)
        if self._reader not in (None, reader):
            raise TraceError("The file holds answers in more than one format.")
        self._reader = reader
        reader(self.answer, event)
        self._ids.add(read_text(event.get("id"), "id") if isinstance(event.get("id"), str) else "")
        if len(self._ids - {""}) > 1:
            raise TraceError("The file holds more than one answer: its events have different ids.")


def read_answer(events: list[JsonObject]) -> Answer:
    """Return the answer in the JSON documents of a file.

    Raises:
        TraceError: they are an error of the server, the answer to another call, two answers, or of
            an unknown shape.
    """
    if not events:
        raise TraceError("The stream has no events.")
    for event in events:
        _refuse_error(event)
    found = AnswerReader()
    for event in events:
        found.add(event)
    return found.answer


def is_request_with_response(value: JsonValue) -> TypeGuard[JsonObject]:
    """Return True if a JSON value is an object with a request and its response."""
    return isinstance(value, dict) and {"request", "response"} <= value.keys()


def is_from_server(value: JsonValue) -> bool:
    """Return True if a JSON document is an answer of a server, of whatever call."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(item, dict) for item in value)
    if not isinstance(value, dict):
        return False
    known = frozenset(value) in _OTHER_CALLS or "error" in value
    formats = (matches(value) for matches, _ in _FORMATS)
    return known or is_request_with_response(value) or any(formats)


def _find_format(event: JsonObject) -> Reader:
    for matches, reader in _FORMATS:
        if matches(event):
            return reader
    sentence = _OTHER_CALLS.get(frozenset(event))
    if sentence is not None:
        raise TraceError(sentence)
    raise TraceError("The file is no completion of OpenAI, vLLM, llama.cpp, Ollama or TGI.")


def _refuse_error(event: JsonObject) -> None:
    """Refuse a recorded error with the server's own words."""
    error = event.get("error")
    if error is None and event.get("object") != "error":
        return
    words = error_words(event)
    raise TraceError(
        "The server answered with an error: {why}", why=words or Message("it gave no reason.")
    )


def error_words(answer: JsonValue) -> str:
    """Return the words of a server's error, at most 300 characters; empty if it has none.

    Raises:
        TraceError: the error has an unknown shape.
    """
    whole = read_object(answer, "error")
    error = whole.get("error", whole.get("detail", whole))
    if isinstance(error, str):
        return read_text(error, "error")[:_MAX_SHOWN]
    return read_text(read_object(error, "error").get("message"), "message")[:_MAX_SHOWN]
