"""A parameter that holds a grammar: a JSON schema, a regular expression, a list of texts, or Lark; no torch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.declare.params import Param
from engine.errors import ParameterError
from engine.messages import Message
from engine.type_guards import is_list, is_mapping

KINDS = ("json", "regex", "choice", "grammar")
_WHITESPACE = "whitespace_pattern"
MOST_CHARACTERS = 20_000
_MOST_CHOICES = 1000


@dataclass(frozen=True, kw_only=True)
class StructuredOutputs(Param):
    """Exactly one of ``KINDS``; with ``json`` also ``whitespace_pattern``."""

    def describe_range(self) -> str:
        return Message(
            "an object with exactly one of json (a schema), regex, choice (a list of texts) and grammar (Lark), "
            "and at most {most} characters",
            most=MOST_CHARACTERS,
        )

    def check(self, name: str, value: object) -> Any:
        try:
            return super().check(name, value)
        except _Refusal as refusal:
            raise ParameterError(name, value, refusal.args[0]) from None
        except RecursionError:
            raise ParameterError(name, value, Message("it nests too deep")) from None

    def parse(self, value: object) -> dict[str, Any]:
        given = json.loads(value) if isinstance(value, str) else value
        if not is_mapping(given):
            raise TypeError
        kinds = [kind for kind in KINDS if given.get(kind) is not None]
        unknown = [str(key)[:40] for key in given if key not in (*KINDS, _WHITESPACE)]
        if unknown:
            raise _Refusal(Message("it has no field {field}", field=unknown[0]))
        if len(kinds) != 1:
            raise _Refusal(Message("it needs exactly one of {kinds}", kinds=", ".join(KINDS)))
        [kind] = kinds
        found = {kind: _PARSERS[kind](given[kind])}
        pattern = given.get(_WHITESPACE)
        if pattern is not None:
            if kind != "json":
                raise _Refusal(Message("whitespace_pattern goes with json only"))
            found[_WHITESPACE] = _parse_text(pattern)
        size = len(json.dumps(found, ensure_ascii=False))
        if size > MOST_CHARACTERS:
            raise _Refusal(
                Message(
                    "it has {n} characters, and {most} are the most", n=size, most=MOST_CHARACTERS
                )
            )
        return found


class _Refusal(Exception):
    """The argument is a clause that says what is wrong."""


def _parse_schema(value: object) -> Mapping[object, object] | bool:
    try:
        schema = json.loads(value) if isinstance(value, str) else value
        # A Python caller may give what JSON cannot hold.
        json.dumps(schema)
    except (ValueError, TypeError, RecursionError):
        raise _Refusal(Message("json must be a JSON schema")) from None
    if isinstance(schema, bool) or is_mapping(schema):
        return schema
    raise _Refusal(Message("json must be a JSON schema"))


def _parse_text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError
    value.encode()  # a lone surrogate raises UnicodeEncodeError, a ValueError
    return value


def _parse_choices(value: object) -> list[str]:
    if not is_list(value) or not 1 <= len(value) <= _MOST_CHOICES:
        raise _Refusal(Message("choice must be a list of 1 to {most} texts", most=_MOST_CHOICES))
    return [_parse_text(text) for text in value]


_PARSERS = {
    "json": _parse_schema,
    "regex": _parse_text,
    "choice": _parse_choices,
    "grammar": _parse_text,
}
