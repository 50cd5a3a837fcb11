"""Sentences for a person, kept with their template and values so that they can be translated.

A ``Message`` is the English sentence itself. Wherever sentences leave the process as JSON, the
templates go with them under ``TEMPLATES_FIELD``. A reader in another language looks up the template
in a catalogue and fills in the values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

PLACEHOLDER = re.compile(r"\{(\w+)\}")
_MAX_DEPTH = 8
"""Most messages within one another that are restored."""
TEMPLATES_FIELD = "templates"
"""Field of a JSON document with its sentences: English sentence -> template and values."""


class Message(str):
    """An English sentence that knows its template.

    Args:
        template: the sentence with its values as ``{name}``. It is the key of its translations.
        values: name -> value; a value that is a ``Message`` is translated, too. Values that the
            template does not name are left out.
    """

    __slots__ = ("template", "values")
    template: str
    values: Mapping[str, str]

    def __new__(cls, template: str, /, **values: object) -> Message:
        # Values that are sentences stay messages; everything else is text from here on.
        named = {name: values[name] for name in PLACEHOLDER.findall(template) if name in values}
        shown = {name: v if isinstance(v, str) else str(v) for name, v in named.items()}
        made = super().__new__(cls, fill(template, shown))
        made.template, made.values = template, shown
        return made

    def __str__(self) -> str:
        """Return itself: ``str(error)`` would otherwise drop the template."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_message, (self.template, dict(self.values))


def _restore_message(template: str, values: Mapping[str, str]) -> Message:
    return Message(template, **values)


def fill(template: str, values: Mapping[str, str]) -> str:
    """Return a template with its values; a name without a value stays as it is."""
    return PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


def join_messages(parts: Iterable[str], separator: str = " ") -> str:
    """Return the non-empty parts as one text whose parts are translated one by one."""
    shown = [part for part in parts if part]
    if len(shown) < 2:
        return shown[0] if shown else ""
    template = separator.join(f"{{part{i}}}" for i in range(len(shown)))
    return Message(template, **{f"part{i}": part for i, part in enumerate(shown)})


def join_words(parts: Sequence[str]) -> str:
    """Return "a", "a and b", or "a, b and c"."""
    *head, last = parts
    if not head:
        return last
    return Message("{head} and {last}", head=join_messages(head, ", "), last=last)


def collect_templates(data: object) -> dict[str, dict[str, Any]]:
    """Return the sentences inside JSON data: English -> template and values."""
    found: dict[str, dict[str, Any]] = {}
    _collect_into(found, data)
    return found


def _collect_into(found: dict[str, dict[str, Any]], data: object) -> None:
    if isinstance(data, Message):
        if data not in found:
            found[str.__str__(data)] = {"template": data.template, "values": dict(data.values)}
            # The values' own templates are needed to translate them.
            _collect_into(found, data.values)
    elif isinstance(data, Mapping):
        for value in data.values():
            _collect_into(found, value)
    elif isinstance(data, (list, tuple)):
        for value in data:
            _collect_into(found, value)


def add_templates(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON document with the templates of its sentences, if it has any.

    Raises:
        ValueError: it has a field of that name already.
    """
    if TEMPLATES_FIELD in document:
        raise ValueError(f"{TEMPLATES_FIELD} is the field of the templates.")
    found = collect_templates(document)
    return {**document, TEMPLATES_FIELD: found} if found else dict(document)


def to_json(document: Mapping[str, Any]) -> str:
    """Return a document with its templates as JSON without spaces; NaN and infinity are refused."""
    return json.dumps(add_templates(document), allow_nan=False, separators=(",", ":"))


def restore_templates(document: Mapping[str, T]) -> dict[str, T]:
    """Return a JSON document whose sentences are messages again; the inverse of ``add_templates``.

    Entries that do not give the sentence they are stored under are ignored: the document may come
    from anyone.
    """
    whole = {name: value for name, value in document.items() if name != TEMPLATES_FIELD}
    entries: object = document.get(TEMPLATES_FIELD)
    if not isinstance(entries, Mapping):
        return whole
    known = _read_entries(entries)
    return _map_texts(whole, lambda text: known.get(text, text)) if known else whole


def _read_entries(entries: Mapping[Any, Any]) -> dict[str, Message]:
    known: dict[str, Message] = {}
    depths: dict[str, int] = {}
    # A sentence is at least as long as each of its values, which have to be known before it.
    for text, entry in sorted(entries.items(), key=lambda item: len(item[0])):
        match entry:
            case {"template": str(template), "values": dict(values)} if _gives(
                template, values, text
            ):
                depth = 1 + max((depths.get(v, 0) for v in values.values()), default=0)
                if depth > _MAX_DEPTH:
                    continue
                message = Message(template, **{n: known.get(v, v) for n, v in values.items()})
                # `_gives` has compared lengths only.
                if message == text:
                    known[message], depths[message] = message, depth
            case _:
                continue
    return known


def _gives(template: str, values: Mapping[Any, Any], text: str) -> bool:
    """Return whether filling a template can give a text; it is cheap, whatever the template."""
    named = PLACEHOLDER.findall(template)
    # A value that the text does not contain could hold any number of others.
    if set(values) != set(named) or not all(isinstance(v, str) for v in values.values()):
        return False
    filled = sum(len(values[name]) for name in named)
    return len(PLACEHOLDER.sub("", template)) + filled == len(text)


def _map_texts(data: Any, change: Callable[[str], str]) -> Any:
    if isinstance(data, str):
        return change(data)
    if isinstance(data, Mapping):
        return {name: _map_texts(value, change) for name, value in data.items()}
    if isinstance(data, list):
        return [_map_texts(value, change) for value in data]
    return data
