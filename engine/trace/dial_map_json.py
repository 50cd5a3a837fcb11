"""Dial maps as versioned, strict JSON, and the schema of that JSON."""

from __future__ import annotations

import json
from typing import Any

from engine.errors import TraceError
from engine.messages import add_templates, restore_templates
from engine.trace import checks
from engine.trace.dial_map import DIAL_MAP_SCHEMA, ENDS, DialInterval, DialMap
from engine.trace.json_io import read_value, to_dict
from engine.trace.schema import file_schema
from engine.trace.value_types import JsonValue

_MAX_BYTES = 4_000_000


def dial_map_to_dict(found: DialMap) -> dict[str, Any]:
    """Return the JSON object of a map."""
    return add_templates({"schema": DIAL_MAP_SCHEMA, **to_dict(found)})


def dial_map_from_dict(data: JsonValue) -> DialMap:
    """Make a map from parsed JSON.

    Raises:
        TraceError: a field is invalid; the message names it.
    """
    if not isinstance(data, dict) or data.get("schema") != DIAL_MAP_SCHEMA:
        raise TraceError(
            "A dial map is a JSON object with the schema {schema}.", schema=repr(DIAL_MAP_SCHEMA)
        )
    fields = {name: value for name, value in restore_templates(data).items() if name != "schema"}
    found: DialMap = read_value(fields, DialMap, "map")
    for one in found.intervals:
        lengths = {len(one.token_ids), len(one.ranks), len(one.logprobs)}
        if len(lengths) != 1 or one.end not in ENDS or not set(one.token_ids) <= set(found.pieces):
            raise TraceError("An interval of the dial map does not fit together.")
    if not found.intervals:
        raise TraceError("A dial map has at least one interval.")
    return found


def load_dial_map(data: bytes) -> DialMap:
    """Read and validate a map from JSON bytes, optionally gzipped.

    Raises:
        TraceError: it is no valid map.
    """
    return dial_map_from_dict(checks.read_json_strict(data, _MAX_BYTES))


def dump_dial_map(found: DialMap) -> str:
    """Return the map as one line of strict JSON."""
    return json.dumps(dial_map_to_dict(found), allow_nan=False, separators=(",", ":"))


def dial_map_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a map."""
    found = file_schema(DialMap, DIAL_MAP_SCHEMA, "Dial map")
    found["$defs"][DialInterval.__name__]["properties"]["end"] = {"enum": list(ENDS)}
    return found
