"""Summary of the watermark: hits of each token, z-score and verdict so far."""

from __future__ import annotations

import dataclasses
import math

from engine.statistics.watermark_statistics import Z_THRESHOLD, Verdict, WatermarkCount
from engine.trace.details import WatermarkDetail
from engine.trace.records import Step, Trace
from visualizers.base import StepSummary, Visual, has_detail


class WatermarkSummary:
    """Counts the tokens of every sequence like a detector.

    Values per step: ``hits`` of the token out of ``flips``, and their ``share``; ``z``, the
    z-score of the sequence so far; ``verdict`` on it, None while no token counts; ``threshold`` of
    the z-score. ``by_chance`` of a verdict has the hits of unmarked texts, see ``_chance_hits``.
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
            verdict = {
                **dataclasses.asdict(found),
                "chance": detail.chance,
                "by_chance": _chance_hits(found, detail.chance),
            }
        return {
            "hits": hits,
            "flips": flips,
            "share": hits / flips,
            "z": count.z_score,
            "verdict": verdict,
            "threshold": self.threshold,
        }


def _chance_hits(found: Verdict, chance: float) -> dict[str, float]:
    """Return the hits that chance alone gives in as many trials.

    ``expected`` is their mean; ``two_sd_below`` and ``two_sd_above`` are two standard deviations
    away. A text with more hits than ``needed`` is predicted to be marked.
    """
    expected = found.trials * chance
    spread = math.sqrt(expected * (1 - chance))
    assumed = found.trials * found.expected_fraction
    return {
        "expected": expected,
        "two_sd_below": max(0.0, expected - 2 * spread),
        "two_sd_above": min(float(found.trials), expected + 2 * spread),
        "needed": assumed + found.z_threshold * math.sqrt(assumed * (1 - found.expected_fraction)),
    }


def count_hits(detail: WatermarkDetail) -> int:
    """Return the hits of a token: 1 if green, for SynthID its number of one bits."""
    return sum(detail.g_values) if detail.g_values else int(bool(detail.is_green))


VISUALS = (
    Visual("watermark_chance", None, has_detail(WatermarkDetail), order=39),
    Visual("watermark", WatermarkSummary, has_detail(WatermarkDetail), order=40),
)
