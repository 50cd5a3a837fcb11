"""Maps of two dials as versioned, strict JSON, and the schema of that JSON."""

from __future__ import annotations

import json
from typing import Any

from engine.errors import TraceError
from engine.messages import add_templates, restore_templates
from engine.trace import checks
from engine.trace.dial_grid import DIAL_GRID_SCHEMA, DialGrid, GridText
from engine.trace.dial_map import ENDS
from engine.trace.json_io import read_value, to_dict
from engine.trace.schema import file_schema
from engine.trace.value_types import JsonValue

_MAX_BYTES = 4_000_000


def dial_grid_to_dict(found: DialGrid) -> dict[str, Any]:
    """Return the JSON object of a map of two dials."""
    return add_templates({"schema": DIAL_GRID_SCHEMA, **to_dict(found)})


def dial_grid_from_dict(data: JsonValue) -> DialGrid:
    """Make a map of two dials from parsed JSON.

    Raises:
        TraceError: a field is invalid; the message names it.
    """
    if not isinstance(data, dict) or data.get("schema") != DIAL_GRID_SCHEMA:
        raise TraceError(
            "A map of two dials is a JSON object with the schema {schema}.",
            schema=repr(DIAL_GRID_SCHEMA),
        )
    fields = {name: value for name, value in restore_templates(data).items() if name != "schema"}
    found: DialGrid = read_value(fields, DialGrid, "map")
    texts_fit = all(
        len(one.token_ids) == len(one.logprobs)
        and one.end in ENDS
        and set(one.token_ids) <= set(found.pieces)
        for one in found.texts
    )
    cells_fit = all(
        0 <= cell.row < len(found.values) and 0 <= cell.text < len(found.texts)
        for cell in found.cells
    )
    has_rows = {cell.row for cell in found.cells} == set(range(len(found.values)))
    if not (texts_fit and cells_fit and has_rows and found.values):
        raise TraceError("A cell of the map of two dials does not fit together.")
    return found


def load_dial_grid(data: bytes) -> DialGrid:
    """Read and validate a map of two dials from JSON bytes, optionally gzipped.

    Raises:
        TraceError: it is no valid map.
    """
    return dial_grid_from_dict(checks.read_json_strict(data, _MAX_BYTES))


def dump_dial_grid(found: DialGrid) -> str:
    """Return the map as one line of strict JSON."""
    return json.dumps(dial_grid_to_dict(found), allow_nan=False, separators=(",", ":"))


def dial_grid_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a map of two dials."""
    found = file_schema(DialGrid, DIAL_GRID_SCHEMA, "Map of two dials")
    found["$defs"][GridText.__name__]["properties"]["end"] = {"enum": list(ENDS)}
    return found
