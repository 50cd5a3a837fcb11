"""Translation of the page's declaration.

Only the fields listed here are translated. Values that the page sends back, compares or uses as
keys stay unchanged. The English texts are declared in the code and are the keys of the
translations, see ``playground.i18n.languages``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from playground.i18n import languages

TEXT_FIELDS = frozenset(
    (
        "label",
        "plain_label",
        "help",
        "title",
        "plain_name",
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
PRESETS_FIELD = "presets"
"""Field with presets, whose ``name`` is translated.

Presets are identified by their values, not their name.
"""
PRESET_VALUE_FIELDS = ("params", "messages")
"""Fields with a preset's values, which are sent back and so not translated."""
TITLES_FIELDS = ("groups", "strategy_groups", "filters")
"""Fields with a map whose values are all titles."""
TERMS_FIELD = "terms"
"""Field with the glossary: term -> its definition and a common misconception.

Each term keeps its English key and gets its translated name.
"""

_Translate = Callable[[str], str]


def translate_spec(spec: Mapping[str, Any], language: str) -> Mapping[str, Any]:
    """Return the declaration in a language; for English the same object.

    Args:
        spec: The declaration that ``playground.app.page_head`` gives to the page.
        language: One of ``languages.languages()``. Texts without a translation stay English.
    """
    words = languages.spec_catalogue(language)
    return _map_texts(spec, lambda text: words.get(text, text)) if words else spec


def _map_texts(value: Any, say: _Translate, inside: str = "") -> Any:
    """Return a value with every translatable text replaced by ``say(text)``.

    Args:
        value: A part of the declaration.
        say: Maps an English text to its replacement. It is never called with "".
        inside: The nearest field name above the value.
    """
    if isinstance(value, (list, tuple)):
        return [_map_texts(one, say, inside) for one in value]
    if not isinstance(value, Mapping):
        return value
    if inside == TERMS_FIELD:
        return {name: [*_map_parts(means, say), say(name)] for name, means in value.items()}
    if inside in TITLES_FIELDS:
        return {name: say(title) for name, title in value.items()}
    return {name: _map_field(value, name, say, inside) for name in value}


def _map_field(owner: Mapping[str, Any], name: str, say: _Translate, inside: str) -> Any:
    value = owner[name]
    if isinstance(value, str) and (
        name in TEXT_FIELDS or (name == "name" and inside == PRESETS_FIELD)
    ):
        # Titles of hub models are names, not text.
        known = name == "title" and owner.get("embedded") is False
        return value if known or not value else say(value)
    if inside == PRESETS_FIELD and name in PRESET_VALUE_FIELDS:
        return value
    return _map_texts(value, say, name)


def _map_parts(parts: list[str], say: _Translate) -> list[str]:
    return [say(part) if part else part for part in parts]
