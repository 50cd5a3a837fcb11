"""Data of the map of two dials: the edges of its cells, and the figures of each text."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from engine.trace.dial_grid import DialGrid
from engine.trace.dial_grid_json import dial_grid_to_dict
from visualizers.dial_map.summary import text_figures


def dial_grid_with_view(found: DialGrid) -> dict[str, Any]:
    """Return a map of two dials as JSON values, with the data of its picture as ``view``."""
    return dial_grid_to_dict(found) | {"view": dial_grid_view(found)}


def dial_grid_view(found: DialGrid) -> dict[str, Any]:
    """Return what the picture shows, as JSON values.

    ``edges`` are the left and right end of each cell; between two cells, an edge is in the middle.
    ``figures`` are those of each text, as in the metrics of a run.
    """
    edges: list[list[float]] = []
    for row in range(len(found.values)):
        own = [cell for cell in found.cells if cell.row == row]
        middles = [(a.high + b.low) / 2 for a, b in pairwise(own)]
        edges += map(list, pairwise([found.low, *middles, found.high]))
    return {
        "edges": edges,
        "figures": [text_figures(one.token_ids, one.logprobs) for one in found.texts],
    }
