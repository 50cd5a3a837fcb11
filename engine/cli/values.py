"""What commands read from their arguments alike: values and NAME=VALUE settings."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterable
from typing import Any

from engine.errors import ParameterError

_TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def json_value(text: str) -> Any:
    """Return text as the JSON value it spells, else as text; the engine judges it."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def printable(text: str) -> str:
    """Return text as a terminal may show it: what would steer the terminal is spelled out."""
    return "".join(c if c in "\n\t" or not _steers(c) else ascii(c)[1:-1] for c in text)


def _steers(character: str) -> bool:
    """Return whether a character is for the terminal: a control character, or one that turns text round."""
    return unicodedata.category(character) == "Cc" or character in _TURNS


def settings_of(texts: Iterable[str], option: str = "--set") -> dict[str, Any]:
    """Return NAME=VALUE texts as a mapping; of a name that comes twice the last counts.

    Args:
        texts: as they were given.
        option: of the command line, which gave them.

    Raises:
        ParameterError: a text has no equals sign.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ParameterError(option, text, "it must be name=value")
        found[name] = json_value(value)
    return found
