"""Column format of a step in a file: a list of records as one object of columns, half as long.

``[{"token_id": 5, "rank": 0}, {"token_id": 9, "rank": 1}]`` becomes
``{"token_id": [5, 9], "rank": [0, 1]}``, without loss. Nested records, such as the layers of a
step, are converted likewise.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any

from engine.errors import TraceError
from engine.trace.details import DETAIL_TYPES
from engine.trace.value_types import field_types, split_annotation


def to_columns(value: Any) -> Any:
    """Convert the JSON values of a step: every list of records becomes columns."""
    if isinstance(value, dict):
        return {name: to_columns(item) for name, item in value.items()}
    if not isinstance(value, list):
        return value
    if value and all(isinstance(item, dict) for item in value):
        return {name: to_columns([item[name] for item in value]) for name in value[0]}
    return [to_columns(item) for item in value]


def to_rows(value: Any, kind: Any, where: str) -> Any:
    """Convert JSON values of a file: columns become lists of records.

    Args:
        value: JSON value; anything that is not columns stays, and is validated when it is read.
        kind: expected type: a dataclass of the trace, or the type of one of its fields.
        where: place in the file, for errors.

    Raises:
        TraceError: columns of one list differ in length.
    """
    kind, _ = split_annotation(kind)
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return to_rows(value, _select_union_member(value, args), where)
    if origin is tuple and dataclasses.is_dataclass(args[0]) and isinstance(value, dict):
        value = _columns_to_records(value, where)
    if origin is tuple and isinstance(value, list):
        return [to_rows(item, args[0], f"{where}[{i}]") for i, item in enumerate(value)]
    if not (dataclasses.is_dataclass(kind) and isinstance(value, dict)):
        return value
    hints = field_types(typing.cast("type", kind))
    return {
        name: to_rows(item, hints[name], f"{where}.{name}") if name in hints else item
        for name, item in value.items()
    }


def _select_union_member(value: Any, args: tuple[Any, ...]) -> Any:
    """Return the member of a union that fits the value; details are selected by their kind."""
    kind = value.get("kind") if isinstance(value, dict) else None
    options = [arg for arg in args if arg is not type(None)]
    found = DETAIL_TYPES.get(kind) if isinstance(kind, str) else None
    # An unknown kind is reported when the value is read.
    return found if found in options else options[0]


def _columns_to_records(columns: dict[str, Any], where: str) -> list[dict[str, Any]]:
    lists = [column if isinstance(column, list) else [] for column in columns.values()]
    if len({len(column) for column in lists}) != 1:
        raise TraceError(f"{where} has columns of different lengths.")
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]
