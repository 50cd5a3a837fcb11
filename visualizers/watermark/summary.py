"""The watermark: what every token adds to the count, how z grows, and the verdict so far."""

from __future__ import annotations

import dataclasses

from engine.reading.watermark_statistics import Z_THRESHOLD, Count
from engine.trace.details import WatermarkDetail
from engine.trace.records import Step, Trace
from visualizers.base import Shown


class Marks:
    """Counts every sequence of a run as a detector would.

    Shows of a step: ``hits`` of its token and ``flips`` it is one of, ``share`` of both; ``z`` of
    its sequence so far and the ``verdict`` on it, None while nothing counts; its ``threshold``.
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
        count = self.counts.setdefault(step.sequence, Count(flips, detail.expected, detail.chance))
        count.add(scored=detail.scored, fresh=detail.fresh, hits=hits)
        found = count.verdict(self.threshold)
        verdict = None
        if found is not None:
            verdict = {**dataclasses.asdict(found), "chance": detail.chance}
        return {
            "hits": hits,
            "flips": flips,
            "share": hits / flips,
            "z": count.z_score,
            "verdict": verdict,
            "threshold": self.threshold,
        }


def hits_of(detail: WatermarkDetail) -> int:
    """Return what a token adds when it counts: 1 for green, its ones for SynthID."""
    return sum(detail.g_values) if detail.g_values else int(bool(detail.is_green))
