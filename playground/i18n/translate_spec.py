"""Translation of the page's declaration.

Only the fields listed here are translated. Values that the page sends back, compares or uses as
keys stay unchanged. The English texts are declared in the code and are the keys of the
translations, see ``playground.i18n.languages``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from playground.i18n import languages

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
"""Fields whose text is translated wherever they occur."""
NAMED = "presets"
"""Field with presets, whose ``name`` is translated.

Presets are identified by their values, not their name.
"""
SET = ("params", "messages")
"""Fields with a preset's values, which are sent back and so not translated."""
LISTED = "groups"
"""Field with a map whose values are all titles."""
MEANT = "terms"
"""Field with the glossary: term -> its definition and a common misconception."""

_Say = Callable[[str], str]


def translated(spec: Mapping[str, Any], language: str) -> Mapping[str, Any]:
    """Return the declaration in a language; for English the same object.

    Args:
        spec: The declaration that ``playground.app.page_head`` gives to the page.
        language: One of ``languages.languages()``. Texts without a translation stay English.
    """
    words = languages.declared(language)
    return _walked(spec, lambda text: words.get(text, text)) if words else spec


def terms_in(language: str, terms: Mapping[str, list[str]]) -> Mapping[str, list[str]]:
    """Return the glossary in a language.

    Each term keeps its English key and gets its translated name.

    Args:
        language: As in ``translated``.
        terms: The English glossary, see ``engine.statistics.glossary.words``.
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
    """Return a value with every translatable text replaced by ``say(text)``.

    Args:
        value: A part of the declaration.
        say: Maps an English text to its replacement. It is never called with "".
        inside: The nearest field name above the value.
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
        # Titles of hub models are names, not text.
        known = name == "title" and owner.get("embedded") is False
        return value if known or not value else say(value)
    if inside == NAMED and name in SET:
        return value
    return _walked(value, say, name)


def _said(parts: list[str], say: _Say) -> list[str]:
    return [say(part) if part else part for part in parts]
