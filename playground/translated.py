"""The page's declaration in the language of its reader.

What is read of it is translated, and named here once; whatever is sent back, compared or looked up by keeps its
value. The English texts stand where they are declared and are the names of the others, see ``playground.languages``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from playground import languages

READ = frozenset(
    (
        "label",
        "help",
        "title",
        "alt",
        "summary",
        "helps",
        "turns",
        "paper",
        "shows",
        "why",
        "refused",
    )
)
"""Fields whose text is read, wherever they stand."""
NAMED = "presets"
"""Where ``name`` is read and nothing else: presets are told from one another by what they set."""
SET = ("params", "messages")
"""What a preset sets: it is sent back."""
LISTED = "groups"
"""Where every value is a title."""
MEANT = "terms"
"""The glossary: name -> what it is, and the mistake it invites."""

_Say = Callable[[str], str]


def translated(spec: Mapping[str, Any], language: str) -> Mapping[str, Any]:
    """Return the declaration in a language; in English it is the same object.

    Args:
        spec: what ``playground.app.page_head`` hands to the page.
        language: one of ``languages.languages()``; what is not there is English.
    """
    words = languages.declared(language)
    return _walked(spec, lambda text: words.get(text, text)) if words else spec


def terms_in(language: str, terms: Mapping[str, list[str]]) -> Mapping[str, list[str]]:
    """Return the glossary in a language; each term keeps its name and is given the one that is read.

    Args:
        language: as in ``translated``.
        terms: see ``engine.reading.terms.words``.
    """
    return translated({MEANT: terms}, language)[MEANT]


def texts_of(spec: Mapping[str, Any]) -> Iterator[str]:
    """Yield every English text that ``translated`` looks up, some more than once."""
    found: list[str] = []

    def keep(text: str) -> str:
        found.append(text)
        return text

    _walked(spec, keep)
    yield from found


def _walked(value: Any, say: _Say, inside: str = "") -> Any:
    """Return a value with what is read of it said by ``say``.

    Args:
        value: of the declaration.
        say: English -> what stands in its place; it is not asked about what is empty.
        inside: the nearest name above the value.
    """
    if isinstance(value, (list, tuple)):
        return [_walked(one, say, inside) for one in value]
    if not isinstance(value, Mapping):
        return value
    if inside == MEANT:
        return {name: [*_said(means, say), say(name)] for name, means in value.items()}
    if inside == LISTED:
        return {name: say(title) for name, title in value.items()}
    return {name: _field(value, name, say, inside) for name in value}


def _field(owner: Mapping[str, Any], name: str, say: _Say, inside: str) -> Any:
    value = owner[name]
    if isinstance(value, str) and (name in READ or (name == "name" and inside == NAMED)):
        # A model of the hub is called what it is called there.
        known = name == "title" and owner.get("embedded") is False
        return value if known or not value else say(value)
    if inside == NAMED and name in SET:
        return value
    return _walked(value, say, name)


def _said(parts: list[str], say: _Say) -> list[str]:
    return [say(part) if part else part for part in parts]
