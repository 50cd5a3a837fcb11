"""The JSON Schema of a trace, generated from the data types."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

from engine.trace.details import DETAIL_TYPES
from engine.trace.records import FINISH_REASONS, IN_COLUMNS, SCHEMA, Output, Step, Trace
from engine.trace.value_types import LOGPROB, hints_of, plain

_KINDS = {cls: kind for kind, cls in DETAIL_TYPES.items()}
_SCALARS = {int: "integer", float: "number", str: "string", bool: "boolean"}


def schema(*, columns: bool = False) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a trace.

    Args:
        columns: False for ``decoding-trace/1``, True for ``decoding-trace/2`` with columns.
    """
    definitions: dict[str, Any] = {}
    top = _record(Trace, definitions)
    name = IN_COLUMNS if columns else SCHEMA
    top["properties"] = {"schema": {"const": name}, **top["properties"]}
    top["required"] = ["schema", *top["required"]]
    definitions[Output.__name__]["properties"]["finish_reason"] = {"enum": list(FINISH_REASONS)}
    if columns:
        _turn(definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Decoding trace in columns" if columns else "Decoding trace",
        **top,
        "$defs": definitions,
    }


def _turn(definitions: dict[str, Any]) -> None:
    """Allow columns instead of lists of records in steps and details; empty lists stay lists."""
    for name in (Step.__name__, *(cls.__name__ for cls in _KINDS)):
        properties = definitions[name]["properties"]
        for field, kind in properties.items():
            record = kind.get("items", {}).get("$ref", "").removeprefix("#/$defs/")
            if record:
                properties[field] = {"anyOf": [{"type": "array", "maxItems": 0}, _columns(record)]}
                definitions.setdefault(f"{record}Columns", _column_of(definitions[record]))


def _columns(record: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{record}Columns"}


def _column_of(record: dict[str, Any]) -> dict[str, Any]:
    fields = {name: {"type": "array", "items": kind} for name, kind in record["properties"].items()}
    return {**record, "properties": fields}


def _record(cls: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = hints_of(cls)
    fields = dataclasses.fields(cls)
    properties = {f.name: _kind(hints[f.name], definitions) for f in fields}
    if cls in _KINDS:
        properties = {"kind": {"const": _KINDS[cls]}, **properties}
    required = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _kind(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    kind, meaning = plain(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # reserved first, so that recursive types end
            definitions[kind.__name__] = _record(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_kind(arg, definitions) for arg in args]}
    if origin is tuple and args[-1] is Ellipsis:
        return {"type": "array", "items": _kind(args[0], definitions)}
    if origin is tuple:
        return {
            "type": "array",
            "prefixItems": [_kind(a, definitions) for a in args],
            "minItems": len(args),
            "maxItems": len(args),
        }
    if origin is dict:
        return {"type": "object", "additionalProperties": _kind(args[1], definitions)}
    if meaning == LOGPROB:
        # JSON has no infinity, so null means -inf, the log of zero.
        return {"type": ["number", "null"]}
    if kind is type(None):
        return {"type": "null"}
    return {"type": _SCALARS[kind]} if kind in _SCALARS else {}
