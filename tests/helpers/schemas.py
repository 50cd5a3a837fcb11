"""Random JSON values derived from a JSON Schema, right ones and nearly right ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

JUNK: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2**31, 2**63, 10**30, -(10**30)),
    *(0.5, -0.0, 1e300, 1e-300, "", "x", "half \ud83d", "\u0000", "a" * 300),
    *([], [[]], [[0]], {}, {"a": 1}, {"kind": "draw"}, {"__proto__": {}}),
)
_DEPTH = 5
_FEW = 3
_WRONG = 0.04
"""How often a value is not what its place asks for."""


def summaries_schema() -> dict[str, Any]:
    """Return the schema of the views' summaries, put together from those of the folders."""
    folder = Path(__file__).parents[2] / "visualizers"
    parts = [json.loads(path.read_text()) for path in folder.glob("*/summary.schema.json")]
    whole = json.loads((folder / "summaries.schema.json").read_text())
    for field in ("properties", "$defs"):
        whole[field] = {name: value for part in parts for name, value in part[field].items()}
    return whole


def junk() -> st.SearchStrategy[Any]:
    """Return values that suit few places."""
    return st.sampled_from(JUNK) | st.floats() | st.integers() | st.text(max_size=20)


def from_schema(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return values of a schema, now and then with junk in one of its places.

    Args:
        schema: draft 2020-12, of the keywords that ``engine.trace.schema`` writes.
    """
    return _value(schema, schema.get("$defs", {}), 0)


def _value(schema: dict[str, Any], defs: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    right = _right(schema, defs, depth)
    return st.floats(0, 1).flatmap(lambda drawn: junk() if drawn < _WRONG else right)


def _right(schema: dict[str, Any], defs: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    if "$ref" in schema:
        named = defs[schema["$ref"].rpartition("/")[2]]
        return st.deferred(lambda: _right(named, defs, depth))
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([_value(one, defs, depth) for one in schema["anyOf"]])
    kinds = schema.get("type", "null")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    return st.one_of([_OF_KIND[kind](schema, defs, depth + 1) for kind in kinds])


def _object(schema: dict[str, Any], defs: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    others = schema.get("additionalProperties")
    if "properties" not in schema:
        inner = _value(others, defs, depth) if isinstance(others, dict) and others else junk()
        return st.dictionaries(st.text(max_size=8), inner, max_size=_FEW)
    made = {name: _value(one, defs, depth) for name, one in schema["properties"].items()}
    required = set(schema.get("required", ()))
    if depth > _DEPTH:
        made = {name: one for name, one in made.items() if name in required}
    return st.fixed_dictionaries(
        {name: one for name, one in made.items() if name in required},
        optional={name: one for name, one in made.items() if name not in required},
    )


def _array(schema: dict[str, Any], defs: dict[str, Any], depth: int) -> st.SearchStrategy[Any]:
    if "prefixItems" in schema:
        return st.tuples(*(_value(one, defs, depth) for one in schema["prefixItems"])).map(list)
    most = 0 if depth > _DEPTH else _FEW
    return st.lists(_value(schema.get("items", {}), defs, depth), max_size=most)


_OF_KIND: dict[str, Any] = {
    "object": _object,
    "array": _array,
    "string": lambda *_: st.text(max_size=12) | st.sampled_from(["greedy", "sampling", "beam"]),
    "integer": lambda *_: st.integers(0, 40) | st.integers(),
    "number": lambda *_: st.floats(-20, 20) | st.floats(),
    "boolean": lambda *_: st.booleans(),
    "null": lambda *_: st.none(),
}
