"""The watermark as a table: every token's colour, whether it counts, and how z grows."""

from __future__ import annotations

import dataclasses
from typing import Any

from engine.reading.watermark_statistics import Verdict, running_z, verdict
from engine.trace.details import WatermarkDetail
from engine.trace.records import Step, Trace, details

COLUMNS = [
    "step",
    "sequence",
    "token",
    "colour",
    "ones",
    "keys",
    "green fraction",
    "bias",
    "counted",
    "fresh",
    "reason",
    "z",
]


def view(trace: Trace) -> dict[str, Any]:
    """Return one row per token of every sequence and, per sequence, the verdict."""
    rows, verdicts = [], []
    for sequence in sorted({step.sequence for step in trace.steps}):
        steps = details(trace.steps_of(sequence), WatermarkDetail)
        marks = [detail for _, detail in steps]
        for (step, detail), z in zip(steps, curve(marks), strict=True):
            rows.append(_row(step, detail, z, trace))
        found = judged(marks, trace.config.get("z_threshold", 3.0))
        verdicts.append(dataclasses.asdict(found) if found else None)
    return {"columns": COLUMNS, "rows": rows, "summary": verdicts}


def _row(step: Step, d: WatermarkDetail, z: float | None, trace: Trace) -> list[Any]:
    colour = {True: "green", False: "red", None: ""}[d.is_green]
    return [
        step.index,
        step.sequence,
        trace.pieces[step.emit[0]],
        colour,
        sum(d.g_values),
        len(d.g_values),
        d.green_fraction,
        d.bias,
        d.scored,
        d.fresh,
        d.reason,
        z,
    ]


def hits(detail: WatermarkDetail) -> int:
    """Return what a token adds when it counts: 1 for green, its ones for SynthID."""
    return sum(detail.g_values) if detail.g_values else int(bool(detail.is_green))


def curve(marks: list[WatermarkDetail]) -> list[float | None]:
    """Return z after every token."""
    if not marks:
        return []
    depth = max(1, len(marks[0].g_values))
    counts = ((mark.scored, hits(mark)) for mark in marks)
    return running_z(counts, depth, marks[0].expected)


def judged(marks: list[WatermarkDetail], threshold: float) -> Verdict | None:
    """Return the verdict on a sequence, None while nothing counts."""
    if not marks:
        return None
    first = marks[0]
    depth = max(1, len(first.g_values))
    counts = ((mark.scored, mark.fresh, hits(mark)) for mark in marks)
    return verdict(counts, depth, first.expected, first.chance, threshold)
