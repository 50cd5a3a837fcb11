"""From Params to widgets and back: the only place that knows both."""

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
from engine.errors import ParameterError
from playground import raw

_LISTS = (AllowedTokens, Biases, Decay, Strings, TokenIds, TokenLists)


def widget(name: str, param: Param, default: Any, elem_id: str | None = None) -> Any:
    """Return the control of one parameter, set to a value, as the element of this name."""
    info = f"{param.help} ({name})"
    about: dict[str, Any] = {"label": param.label, "info": info, "elem_id": elem_id}
    if isinstance(param, Flag):
        return raw.Checkbox(value=default, **about)
    if isinstance(param, Choice):
        choices = [_spelled(choice) for choice in param.choices]
        return raw.Dropdown(choices, value=_spelled(default), **about)
    if isinstance(param, (Number, Integer)):
        return _number(param, default, about)
    placeholder = "off" if param.optional else ""
    return raw.Textbox(value=show(param, default), placeholder=placeholder, max_lines=3, **about)


def _number(param: Number | Integer, default: Any, about: dict[str, Any]) -> Any:
    if param.optional:
        return raw.Number(value=default, placeholder="off", step=param.step, **about)
    maximum = param.slider_maximum or param.maximum
    step = param.step
    # A slider's lowest stop must be legal, also where the minimum itself is not.
    minimum = param.minimum + step if getattr(param, "above_minimum", False) else param.minimum
    if isinstance(param, Number) and param.minimum < step and param.minimum > 0:
        minimum = step
    return raw.Slider(minimum, maximum, value=default, step=step, **about)


def read(name: str, param: Param, value: Any) -> Any:
    """Turn a widget's value into a parameter's raw value; the engine validates it.

    Raises:
        ParameterError: a list that cannot be read.
    """
    if value is None or value == "":
        return None
    if isinstance(param, Choice):
        return next((c for c in param.choices if _spelled(c) == value), value)
    if isinstance(param, Integer):
        return whole(value)
    if isinstance(param, (Flag, Number, Text)) or not isinstance(value, str):
        return value
    return _list(name, param, value)


def whole(value: Any) -> Any:
    """Return a whole number that the page sent as 3.0 as 3, anything else as it is."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def show(param: Param, value: Any) -> Any:
    """Return a parameter's value as its widget shows it."""
    if isinstance(param, Choice):
        return _spelled(value)
    if isinstance(value, (list, tuple)):
        return json.dumps(value)
    if value is None and not isinstance(param, (Number, Integer, Flag)):
        return ""
    return value


def _list(name: str, param: Param, text: str) -> Any:
    text = text.strip()
    if text[:1] in "[{":
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise ParameterError(name, text, f"it is not valid JSON; {param.allowed()}") from None
    if not isinstance(param, _LISTS):
        return text
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if isinstance(param, Strings):
        return parts
    return [int(part) if part.isascii() and part.isdigit() else part for part in parts]


def _spelled(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
