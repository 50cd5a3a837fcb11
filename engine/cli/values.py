"""What commands read from their arguments alike: values and NAME=VALUE settings."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from engine.errors import ParameterError


def json_value(text: str) -> Any:
    """Return text as the JSON value it spells, else as text; the engine judges it."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def settings_of(texts: Iterable[str]) -> dict[str, Any]:
    """Return NAME=VALUE texts as a mapping; of a name that comes twice the last counts.

    Raises:
        ParameterError: a text has no equals sign.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ParameterError("--set", text, "it must be name=value")
        found[name] = json_value(value)
    return found
