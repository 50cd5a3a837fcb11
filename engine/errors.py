"""Errors shown to users: what went wrong, what was given and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from engine.messages import Message

_MAX_NAME_CHARS = 64
_MAX_VALUE_CHARS = 80


class EngineError(Exception):
    """Base class of errors shown to a user as one sentence.

    Args:
        template: the sentence, with its values as ``{name}``; see ``engine.messages.Message``.
        values: name -> value.

    Attributes:
        code: short machine-readable kind; the same in the UI, the CLI and the API.
    """

    code = "error"

    def __init__(self, template: str = "", /, **values: object) -> None:
        super().__init__(Message(template, **values) if values else template)


class ParameterError(EngineError):
    """A request's parameter is outside its legal range.

    Attributes:
        parameter: its name in transformers.
        got: the rejected value.
        allowed: the legal range in words.
    """

    code = "parameter"

    def __init__(self, parameter: str, got: object, allowed: str, hint: str = "") -> None:
        self.parameter, self.got, self.allowed, self.hint = parameter, got, allowed, hint
        values = {"parameter": parameter, "got": format_value(got), "allowed": allowed}
        if hint:
            sentence = Message(
                "{parameter} = {got} is not allowed: {allowed}; {hint}.", **values, hint=hint
            )
        else:
            sentence = Message("{parameter} = {got} is not allowed: {allowed}.", **values)
        super().__init__(sentence)

    def __reduce__(self) -> tuple[type[ParameterError], tuple[str, object, str, str]]:
        """Pickle by constructor arguments, so that the error can cross processes."""
        # The default would pickle `args`, the finished sentence, and fail in the constructor.
        return ParameterError, (self.parameter, self.got, self.allowed, self.hint)


class ModelError(EngineError):
    """A model cannot be found, loaded or used for the request."""

    code = "model"


class TraceError(EngineError):
    """A trace file is invalid; the message names the field."""

    code = "trace"


class DecodeError(EngineError):
    """Decoding failed after it had started; the message names the step."""

    code = "decode"


class MethodError(EngineError):
    """A custom generation method cannot be used; the message names the file and line if known."""

    code = "method"


class ExportError(EngineError):
    """A run cannot be exported as code; the message gives the reason."""

    code = "export"


class BusyError(EngineError):
    """Too many runs are waiting; try again later."""

    code = "busy"


class StoppedError(EngineError):
    """The work was stopped before it had produced a result."""

    code = "stopped"


class Cancelled(Exception):
    """Raised in a producer when its consumer has left; never shown to a user."""


def format_value(value: object) -> str:
    """Return the repr of a value for a message: one line of ASCII, at most 80 characters.

    A ``Message`` describes a value; it stays translatable.
    """
    if isinstance(value, Message):
        return Message("'{text}'", text=value)
    try:
        text = repr(value).encode("ascii", "backslashreplace").decode()
    except RecursionError:
        return "a value that nests too deep"
    except ValueError:  # Python writes no int of more than 4300 digits
        return "a number with thousands of digits"
    return text if len(text) <= _MAX_VALUE_CHARS else text[: _MAX_VALUE_CHARS - 1] + "…"


def suggest_name(name: object, known: Iterable[str]) -> Message | None:
    """Return “did you mean …” with the known name nearest to an unknown one, None if none is near."""
    # The cost of difflib grows with the length of a name, and anyone can send a long one.
    near = difflib.get_close_matches(str(name)[:_MAX_NAME_CHARS], known, n=1)
    return Message("did you mean {near}", near=near[0]) if near else None
