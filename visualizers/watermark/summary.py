"""Summary of the watermark: hits of each token, z-score and verdict so far."""

from __future__ import annotations

import dataclasses

from engine.statistics.watermark_statistics import Z_THRESHOLD, WatermarkCount
from engine.trace.details import WatermarkDetail
from engine.trace.records import Step, Trace
from visualizers.base import StepSummary, Visual, has_detail


class WatermarkSummary:
    """Counts the tokens of every sequence like a detector.

    Values per step: ``hits`` of the token out of ``flips``, and their ``share``; ``z``, the
    z-score of the sequence so far; ``verdict`` on it, None while no token counts; ``threshold`` of
    the z-score.
    """

    def __init__(self, run: Trace) -> None:
        self.threshold = run.config.get("z_threshold", Z_THRESHOLD)
        self.counts: dict[int, WatermarkCount] = {}

    def add(self, step: Step) -> StepSummary | None:
        """Add a step and return its values; None without a watermark detail."""
        detail = step.detail
        if not isinstance(detail, WatermarkDetail):
            return None
        hits, flips = count_hits(detail), max(1, len(detail.g_values))
        count = self.counts.setdefault(
            step.sequence, WatermarkCount(flips, detail.expected, detail.chance)
        )
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


def count_hits(detail: WatermarkDetail) -> int:
    """Return the hits of a token: 1 if green, for SynthID its number of one bits."""
    return sum(detail.g_values) if detail.g_values else int(bool(detail.is_green))


VISUALS = (Visual("watermark", WatermarkSummary, has_detail(WatermarkDetail), order=40),)
