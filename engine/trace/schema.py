"""The JSON Schema of a trace, generated from the data types."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import TYPE_CHECKING, Any

from engine.messages import TEMPLATES_FIELD
from engine.trace.details import DETAIL_TYPES
from engine.trace.records import COLUMNS_SCHEMA, FINISH_REASONS, SCHEMA, Output, Step, Trace
from engine.trace.value_types import LOGPROB, field_types, is_record_type, split_annotation

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_DETAIL_KINDS = {cls: kind for kind, cls in DETAIL_TYPES.items()}
TEMPLATES_SCHEMA = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {
            "template": {"type": "string"},
            "values": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "required": ["template", "values"],
        "additionalProperties": False,
    },
}
"""The templates of the trace's sentences, from which they are translated."""
_SCALAR_TYPES = {int: "integer", float: "number", str: "string", bool: "boolean"}


def trace_schema(*, columns: bool = False) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a trace.

    Args:
        columns: False for ``decoding-trace/1``, True for ``decoding-trace/2`` with columns.
    """
    name = COLUMNS_SCHEMA if columns else SCHEMA
    found = file_schema(Trace, name, "Decoding trace in columns" if columns else "Decoding trace")
    # The field's type is only str; its values are checked by check_trace.
    properties = found["$defs"][Output.__name__]["properties"]
    properties["finish_reason"] = {"enum": list(FINISH_REASONS)}
    if columns:
        _allow_columns(found["$defs"])
    return found


def file_schema(record: type[DataclassInstance], name: str, title: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a file that holds one record and its ``schema``.

    Args:
        record: class of the record.
        name: the value of ``schema``.
        title: title of the schema.
    """
    definitions: dict[str, Any] = {}
    top = record_schema(record, definitions)
    top["properties"] = {"schema": {"const": name}, **top["properties"]}
    top["properties"][TEMPLATES_FIELD] = TEMPLATES_SCHEMA
    top["required"] = ["schema", *top["required"]]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **top,
        "$defs": definitions,
    }


def _allow_columns(definitions: dict[str, Any]) -> None:
    """Allow columns instead of lists of records in steps and details; empty lists stay lists."""
    for name in (Step.__name__, *(cls.__name__ for cls in _DETAIL_KINDS)):
        properties = definitions[name]["properties"]
        for field, kind in properties.items():
            record = kind.get("items", {}).get("$ref", "").removeprefix("#/$defs/")
            if record:
                properties[field] = {
                    "anyOf": [{"type": "array", "maxItems": 0}, _columns_reference(record)]
                }
                definitions.setdefault(f"{record}Columns", _columns_schema(definitions[record]))


def _columns_reference(record: str) -> dict[str, Any]:
    return {"$ref": f"#/$defs/{record}Columns"}


def _columns_schema(record: dict[str, Any]) -> dict[str, Any]:
    fields = {name: {"type": "array", "items": kind} for name, kind in record["properties"].items()}
    return {**record, "properties": fields}


def record_schema(cls: type[DataclassInstance], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a dataclass; add those of its records to ``definitions``."""
    hints = field_types(cls)
    fields = dataclasses.fields(cls)
    properties = {f.name: _type_schema(hints[f.name], definitions) for f in fields}
    if cls in _DETAIL_KINDS:
        properties = {"kind": {"const": _DETAIL_KINDS[cls]}, **properties}
    required = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _type_schema(hint: object, definitions: dict[str, Any]) -> dict[str, Any]:
    kind, meaning = split_annotation(hint)
    if is_record_type(kind):
        if kind.__name__ not in definitions:
            definitions[kind.__name__] = {}  # reserved first, so that recursive types end
            definitions[kind.__name__] = record_schema(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_type_schema(arg, definitions) for arg in args]}
    if origin is tuple and args[-1] is Ellipsis:
        return {"type": "array", "items": _type_schema(args[0], definitions)}
    if origin is tuple:
        return {
            "type": "array",
            "prefixItems": [_type_schema(a, definitions) for a in args],
            "minItems": len(args),
            "maxItems": len(args),
        }
    if origin is dict:
        return {"type": "object", "additionalProperties": _type_schema(args[1], definitions)}
    if meaning == LOGPROB:
        # JSON has no infinity, so null means -inf, the log of zero.
        return {"type": ["number", "null"]}
    if kind is type(None):
        return {"type": "null"}
    return {"type": _SCALAR_TYPES[kind]} if kind in _SCALAR_TYPES else {}
