"""Maps of two dials as versioned, strict JSON, and the schema of that JSON; see ``MapFormat``."""

from __future__ import annotations

from engine.errors import TraceError
from engine.trace.dial_grid import DIAL_GRID_SCHEMA, DialGrid, GridText
from engine.trace.dial_map import ENDS
from engine.trace.map_json import MapFormat


def _check(found: DialGrid) -> None:
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


def _refuse() -> TraceError:
    return TraceError(
        "A map of two dials is a JSON object with the schema {schema}.",
        schema=repr(DIAL_GRID_SCHEMA),
    )


DIAL_GRID_FORMAT = MapFormat(
    DialGrid, DIAL_GRID_SCHEMA, "Map of two dials", GridText, _refuse, _check
)
dial_grid_to_dict = DIAL_GRID_FORMAT.to_dict
dial_grid_from_dict = DIAL_GRID_FORMAT.from_dict
load_dial_grid = DIAL_GRID_FORMAT.load
dump_dial_grid = DIAL_GRID_FORMAT.dump
dial_grid_schema = DIAL_GRID_FORMAT.json_schema
