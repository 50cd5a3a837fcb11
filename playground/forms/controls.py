"""Conversion between the values of parameters and of the page's controls."""

from __future__ import annotations

import json
from typing import Any

from engine.declare.params import (
    AllowedTokens,
    Biases,
    Choice,
    Decay,
    Flag,
    Integer,
    Number,
    Param,
    Strings,
    Text,
    TokenIds,
    TokenLists,
)
from engine.declare.tokens import Token
from engine.errors import ParameterError
from engine.messages import Message

_LIST_PARAMS = (AllowedTokens, Biases, Decay, Strings, TokenIds, TokenLists)
_MAX_DIGITS = 20
"""Longest integer read from text; seeds have at most 19 digits."""


def from_control(name: str, param: Param, value: Any) -> Any:
    """Convert a control's value to a parameter's raw value; the engine validates it later.

    Raises:
        ParameterError: a list is not valid JSON.
    """
    if value is None or value == "":
        return None
    if isinstance(param, Choice):
        # An unknown choice passes through: the engine's error lists the allowed ones.
        return next((c for c in param.choices if _choice_text(c) == value), value)
    if isinstance(param, (Integer, Token)):
        return to_int(value)
    if isinstance(param, (Flag, Number, Text)) or not isinstance(value, str):
        return value
    return _read_list(name, param, value)


def to_int(value: Any) -> Any:
    """Convert 3.0 or a text of digits to an int; return any other value unchanged."""
    # JavaScript numbers are exact to 2**53 only, so the page sends seeds as text.
    if isinstance(value, str) and len(value) <= _MAX_DIGITS and value.isascii() and value.isdigit():
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def to_control(param: Param, value: Any) -> Any:
    """Convert a parameter's value to the value of its control."""
    if isinstance(param, Choice) and value is not None:
        return _choice_text(value)
    if isinstance(value, (list, tuple, dict)):
        return json.dumps(value)
    if value is None and not isinstance(param, (Number, Integer, Flag)):
        return ""
    return value


def _read_list(name: str, param: Param, text: str) -> Any:
    text = text.strip()
    if text[:1] in "[{":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ParameterError(
                name,
                text,
                Message("it is not valid JSON; {allowed}", allowed=param.describe_range()),
            ) from None
    if not isinstance(param, _LIST_PARAMS):
        return text
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if isinstance(param, Strings):
        return parts
    return [int(part) if part.isascii() and part.isdigit() else part for part in parts]


def _choice_text(value: Any) -> str:
    # Choices are spelled as in JSON; ``str(True)`` is "True".
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
