"""The watermark: every token's colour, whether it counts, how z grows, and the verdict so far."""

from __future__ import annotations

import dataclasses
from typing import Any

from engine.reading.watermark_statistics import Z_THRESHOLD, Count
from engine.trace.details import WatermarkDetail
from engine.trace.records import Step, Trace
from visualizers.base import Shown, rows_of

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


class Marks:
    """Counts every sequence of a run as a detector would.

    Shows of a step: ``hits`` of its token and ``flips`` it is one of, ``share`` of both; ``z`` of
    its sequence so far and the ``verdict`` on it, None while nothing counts; its ``threshold``;
    ``rows`` of COLUMNS.
    """

    def __init__(self, run: Trace) -> None:
        self.threshold = run.config.get("z_threshold", Z_THRESHOLD)
        self.counts: dict[int, Count] = {}

    def add(self, step: Step) -> Shown | None:
        """Take a step."""
        detail = step.detail
        if not isinstance(detail, WatermarkDetail):
            return None
        hits, flips = hits_of(detail), max(1, len(detail.g_values))
        count = self.counts.setdefault(
            step.sequence, Count(flips, detail.expected, detail.chance)
        )
        count.add(scored=detail.scored, fresh=detail.fresh, hits=hits)
        z, found = count.z_score, count.verdict(self.threshold)
        verdict = None
        if found is not None:
            verdict = {**dataclasses.asdict(found), "chance": detail.chance}
        return {
            "hits": hits,
            "flips": flips,
            "share": hits / flips,
            "z": z,
            "verdict": verdict,
            "threshold": self.threshold,
            "rows": [_row(step, detail, z)],
        }


def _row(step: Step, detail: WatermarkDetail, z: float | None) -> list[Any]:
    return [
        step.index,
        step.sequence,
        step.emit[0],
        {True: "green", False: "red", None: ""}[detail.is_green],
        sum(detail.g_values),
        len(detail.g_values),
        detail.green_fraction,
        detail.bias,
        detail.scored,
        detail.fresh,
        detail.reason,
        z,
    ]


def hits_of(detail: WatermarkDetail) -> int:
    """Return what a token adds when it counts: 1 for green, its ones for SynthID."""
    return sum(detail.g_values) if detail.g_values else int(bool(detail.is_green))


def view(trace: Trace) -> dict[str, Any]:
    """Return one row per token of every sequence."""
    return {"columns": COLUMNS, "rows": rows_of(trace, Marks, token=2)}
