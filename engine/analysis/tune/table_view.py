"""A table as the page draws it: every measure with its verdict, order, means, and bar lengths."""

from __future__ import annotations

import math
from typing import Any

from engine.analysis.tune.measures import MEASURES
from engine.analysis.tune.table import Table, TableRow


def table_view(table: Table) -> list[dict[str, Any]]:
    """Return one entry for each measure of a table, as JSON values.

    An entry has ``name``, ``label``, ``is_share``, ``verdict`` and ``rows`` in its order. A row has
    its ``setting``, its ``all`` and one entry of ``cells`` for each prompt. Both have the ``mean``,
    None if nothing is recorded, and its ``share`` of the longest bar; a cell also has ``ticks``, the
    share of each seed.
    """
    return [measure_view(table, name) for name in table.measures]


def measure_view(table: Table, name: str) -> dict[str, Any]:
    """Return the entry of one measure; see ``table_view``."""
    measure, rows = MEASURES[name], table.rows(name)
    lengths = [_bar_length(name, v) for row in rows for cell in row.values for v in cell]
    longest = max((one for one in lengths if one is not None), default=0.0)

    def share(value: float | None) -> float:
        return (_bar_length(name, value) or 0.0) / longest if longest else 0.0

    def row_view(row: TableRow) -> dict[str, Any]:
        cells = [
            {"mean": mean, "share": share(mean), "ticks": [share(v) for v in own if v is not None]}
            for mean, own in zip(row.means, row.values, strict=True)
        ]
        whole = {"mean": row.mean, "share": share(row.mean)}
        return {"setting": row.setting, "all": whole, "cells": cells}

    return {
        "name": name,
        "label": measure.label,
        "is_share": measure.is_share,
        "verdict": table.verdict(name),
        "rows": [row_view(row) for row in rows],
    }


def _bar_length(name: str, value: float | None) -> float | None:
    if value is None:
        return None
    return max(0.0, math.log(value)) if MEASURES[name].is_logarithmic else value
