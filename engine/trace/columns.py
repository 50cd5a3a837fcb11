"""Column format of a step in a file: a list of records as one object of columns, half as long.

``[{"token_id": 5, "rank": 0}, {"token_id": 9, "rank": 1}]`` becomes
``{"token_id": [5, 9], "rank": [0, 1]}``, without loss. Nested records, such as the layers of a
step, are converted likewise.
"""

from __future__ import annotations

import types
import typing
from functools import cache
from typing import Any

from engine.errors import TraceError
from engine.trace.details import DETAIL_TYPES
from engine.trace.value_types import (
    JsonObject,
    JsonValue,
    field_types,
    is_record_type,
    split_annotation,
)


def to_columns(value: JsonValue) -> JsonValue:
    """Convert the JSON values of a step: every list of records becomes columns."""
    if isinstance(value, dict):
        return {name: to_columns(item) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    records = [item for item in value if isinstance(item, dict)]
    if records and len(records) == len(value):
        # A list holds records of one class, and to_dict writes every field, so the first names them all.
        return {name: to_columns([item[name] for item in records]) for name in records[0]}
    return [to_columns(item) for item in value]


def to_rows(value: JsonValue, hint: object, where: str) -> JsonValue:
    """Convert JSON values of a file: columns become lists of records.

    Args:
        value: JSON value; anything that is not columns stays, and is validated when it is read.
        hint: expected type: a dataclass of the trace, or the type of one of its fields.
        where: place in the file, for errors.

    Raises:
        TraceError: columns of one list differ in length.
    """
    kind, _ = split_annotation(hint)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return to_rows(value, _select_union_member(value, args), where)
    if origin is tuple and is_record_type(args[0]) and isinstance(value, dict):
        value = [*_columns_to_records(value, where)]
    if origin is tuple and isinstance(value, list):
        return [to_rows(item, args[0], f"{where}[{i}]") for i, item in enumerate(value)]
    if not (is_record_type(kind) and isinstance(value, dict)):
        return value
    hints = _fields_with_records(kind)
    return {
        name: to_rows(item, hints[name], f"{where}.{name}") if name in hints else item
        for name, item in value.items()
    }


@cache
def _fields_with_records(cls: type) -> dict[str, Any]:
    """Return the types of a record's fields that may hold records, as only these have columns."""
    return {name: hint for name, hint in field_types(cls).items() if _holds_records(hint)}


def _holds_records(hint: object) -> bool:
    kind, _ = split_annotation(hint)
    return is_record_type(kind) or any(map(_holds_records, typing.get_args(kind)))


def _select_union_member(value: JsonValue, args: tuple[object, ...]) -> object:
    """Return the member of a union that fits the value; details are selected by their kind."""
    kind = value.get("kind") if isinstance(value, dict) else None
    options = [arg for arg in args if arg is not type(None)]
    found = DETAIL_TYPES.get(kind) if isinstance(kind, str) else None
    # An unknown kind is reported when the value is read.
    return found if found in options else options[0]


def _columns_to_records(columns: JsonObject, where: str) -> list[JsonObject]:
    lists = [column if isinstance(column, list) else [] for column in columns.values()]
    if len({len(column) for column in lists}) != 1:
        raise TraceError("{where} has columns of different lengths.", where=where)
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
