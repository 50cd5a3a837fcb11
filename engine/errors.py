"""Errors a user can act on: each says what was wrong, what was given and what is allowed."""

from __future__ import annotations

from typing import Any

_SHOWN = 80


class EngineError(Exception):
    """Base of every error that is shown to a user as one sentence.

    Attributes:
        code: short machine-readable kind, the same in the UI, the CLI and the API.
    """

    code = "error"


class ParameterError(EngineError):
    """A request's parameter is outside its legal range.

    Attributes:
        parameter: the name as transformers spells it.
        got: the value that was given.
        allowed: the legal range in words.
    """

    code = "parameter"

    def __init__(self, parameter: str, got: Any, allowed: str, hint: str = "") -> None:
        self.parameter, self.got, self.allowed, self.hint = parameter, got, allowed, hint
        sentence = f"{parameter} = {shown(got)} is not allowed: {allowed}"
        super().__init__(sentence + (f"; {hint}." if hint else "."))

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes by what it was made of."""
        return ParameterError, (self.parameter, self.got, self.allowed, self.hint)


class ModelError(EngineError):
    """A model cannot be found, loaded or used for the request."""

    code = "model"


class TraceError(EngineError):
    """A trace file is not valid; the message names the place."""

    code = "trace"


class DecodeError(EngineError):
    """Decoding started and could not go on; the message names the step."""

    code = "decode"


class MethodError(EngineError):
    """A custom generation method cannot be used; the message names its file and line where there is one."""

    code = "method"


class ExportError(EngineError):
    """A run cannot be written as code; the message says what stands in the way."""

    code = "export"


class BusyError(EngineError):
    """Too many runs are waiting; try again later."""

    code = "busy"


class StoppedError(EngineError):
    """Somebody stopped the work before there was anything to keep."""

    code = "stopped"


class Cancelled(Exception):
    """Raised in a producer when its reader has left; no error that anybody is shown."""


def shown(value: Any) -> str:
    """Return a value as it may stand in a message: one line, at most 80 characters."""
    try:
        text = repr(value).encode("ascii", "backslashreplace").decode()
    except RecursionError:
        return "a value that nests too deep"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
