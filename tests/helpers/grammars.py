"""Grammars for Storyteller, and a judge of their texts that is not the library that made them."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema

from engine import DecodeRequest

PROMPT = "One day, a little boy found a"
BALL = {"regex": r" [a-z]{1,8} (ball|doll)\."}
TOY = {
    "type": "object",
    "properties": {"toy": {"enum": ["ball", "doll"]}, "big": {"type": "boolean"}},
    "required": ["toy", "big"],
    "additionalProperties": False,
}
COUNT = {"grammar": 'start: " " NUMBER " toys."\nNUMBER: /[1-9][0-9]?/'}
PAIRS = {"grammar": 'start: pair\npair: "(" side "," side ")"\nside: pair | /[a-c]/'}
CHOICE = {"choice": [" red ball.", " ready dog!", " big dog."]}


def ask(strategy: str, spec: dict[str, Any], seed: int = 1, **params: Any) -> DecodeRequest:
    """Return a request with a grammar."""
    values = {"structured_outputs": spec, "max_new_tokens": 40, **params}
    return DecodeRequest(strategy, prompt=PROMPT, params=values, seed=seed)


def matches(spec: dict[str, Any], text: str) -> bool:
    """Return whether a whole text matches a grammar."""
    if "regex" in spec:
        return re.fullmatch(spec["regex"], text) is not None
    if "choice" in spec:
        return text in spec["choice"]
    if spec == PAIRS:
        return _after_pair(text) == ""
    if "grammar" in spec:
        return re.fullmatch(r" [1-9][0-9]? toys\.", text) is not None
    jsonschema.validate(json.loads(text), spec["json"])
    return True


def _after_pair(text: str) -> str | None:
    """Return what follows a pair at the beginning of a text; None if it begins with none."""
    if not text.startswith("("):
        return None
    rest: str | None = text
    for mark in "(,":
        rest = _after_side(rest[1:]) if rest and rest.startswith(mark) else None
    return rest[1:] if rest and rest.startswith(")") else None


def _after_side(text: str) -> str | None:
    return text[1:] if text[:1] in tuple("abc") else _after_pair(text)
