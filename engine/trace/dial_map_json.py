"""Dial maps as versioned, strict JSON, and the schema of that JSON; see ``MapFormat``."""

from __future__ import annotations

from engine.errors import TraceError
from engine.trace.dial_map import DIAL_MAP_SCHEMA, ENDS, DialInterval, DialMap
from engine.trace.map_json import MapFormat


def _check(found: DialMap) -> None:
    for one in found.intervals:
        lengths = {len(one.token_ids), len(one.ranks), len(one.logprobs)}
        if len(lengths) != 1 or one.end not in ENDS or not set(one.token_ids) <= set(found.pieces):
            raise TraceError("An interval of the dial map does not fit together.")
    if not found.intervals:
        raise TraceError("A dial map has at least one interval.")


def _refuse() -> TraceError:
    return TraceError(
        "A dial map is a JSON object with the schema {schema}.", schema=repr(DIAL_MAP_SCHEMA)
    )


DIAL_MAP_FORMAT = MapFormat(DialMap, DIAL_MAP_SCHEMA, "Dial map", DialInterval, _refuse, _check)
dial_map_to_dict = DIAL_MAP_FORMAT.to_dict
dial_map_from_dict = DIAL_MAP_FORMAT.from_dict
load_dial_map = DIAL_MAP_FORMAT.load
dump_dial_map = DIAL_MAP_FORMAT.dump
dial_map_schema = DIAL_MAP_FORMAT.json_schema
