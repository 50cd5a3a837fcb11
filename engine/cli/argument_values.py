"""Parsing of command arguments and escaping of terminal output."""

from __future__ import annotations

import argparse
import json
import unicodedata
from collections.abc import Iterable
from typing import Any, TypeAlias

from engine.errors import ParameterError

_BIDI_CONTROLS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
"""The commands that a parser has; argparse has no public name for their type."""


def parse_value(text: str) -> Any:
    """Parse text as JSON; return it unchanged if it is none. The engine validates the value."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def escape_controls(text: str) -> str:
    """Return text with control and bidirectional characters escaped, safe for a terminal."""
    # Model output and trace files are untrusted: escape sequences could control the terminal.
    return "".join(
        c if c in "\n\t" or not _is_terminal_control(c) else ascii(c)[1:-1] for c in text
    )


def _is_terminal_control(character: str) -> bool:
    """Return True for control characters and for those that change the writing direction."""
    return unicodedata.category(character) == "Cc" or character in _BIDI_CONTROLS


def parse_settings(texts: Iterable[str], option: str = "--set") -> dict[str, Any]:
    """Parse NAME=VALUE texts into a mapping; the last value of a repeated name counts.

    Args:
        texts: the arguments.
        option: the command line option, named in errors.

    Raises:
        ParameterError: a text has no equals sign.
    """
    found = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise ParameterError(option, text, "it must be name=value")
        found[name] = parse_value(value)
    return found
