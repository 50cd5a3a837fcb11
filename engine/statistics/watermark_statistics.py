"""Watermark statistics: z-score, normal approximation and exact binomial tail. No torch.

transformers 5.23 computes the normal tail by erfc, as ``normal_tail`` does. Older versions left the
square root out of Pólya's formula: p was up to 1.8 times too large below z = 3.3 and too small
above. Counts are whole numbers, so the exact one-sided p-value is ``binomial_tail``.

All of them assume independent tokens, but a repeated token after the same seed has the same colour
and is no new evidence. ``ignore_repeated_ngrams`` avoids that for lefthash only: in selfhash,
n-grams with the same smallest hash share a draw. So p counts distinct draws, z stays that of
transformers' detector, and a z above the threshold only by repeats is called doubtful.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

Z_THRESHOLD = 3.0
"""Default z above which a text is predicted to be marked."""
_NEGLIGIBLE = 1e-18


@dataclass(frozen=True, slots=True)
class Verdict:
    """The statistics of a text and the prediction."""

    num_tokens_scored: int
    trials: int
    """One per scored token; for SynthID one per scored token and key."""
    hits: int
    """Green tokens; for SynthID g-values of 1."""
    expected_fraction: float
    """Hit rate of unmarked text."""
    fraction: float
    z_score: float
    distinct_trials: int
    """Trials without repeated draws."""
    distinct_hits: int
    distinct_z_score: float
    """z over the distinct trials."""
    p_value: float
    """Exact probability of at least ``distinct_hits`` hits in ``distinct_trials`` trials."""
    p_value_normal: float
    z_threshold: float
    prediction: bool
    """Whether z_score is above the threshold."""
    doubtful: bool
    """Whether only repeats lift z_score above the threshold."""

    @property
    def repeats(self) -> int:
        """Trials that repeat an earlier draw."""
        return self.trials - self.distinct_trials


def z_score(hits: int, trials: int, expected: float) -> float | None:
    """Return the z-score of ``hits``, None without trials."""
    if not trials:
        return None
    return (hits - expected * trials) / math.sqrt(trials * expected * (1 - expected))


def normal_tail(z: float) -> float:
    """Return P(Z >= z) of a standard normal Z."""
    return 0.5 * math.erfc(z / math.sqrt(2))


def binomial_tail(hits: int, trials: int, probability: float) -> float:
    """Return P(X >= hits) of X ~ Binomial(trials, probability), exact up to rounding.

    Args:
        hits: 0 to trials.
        trials: independent trials.
        probability: of a hit, above 0 and below 1.
    """
    if hits <= 0:
        return 1.0
    if hits > trials:
        return 0.0
    odds = probability / (1 - probability)
    # Away from the mean the terms shrink, so only a few count.
    if hits > trials * probability:
        ratios = (odds * (trials - k) / (k + 1) for k in range(hits, trials))
        return min(1.0, _binomial_probability(hits, trials, probability) * _sum_series(ratios))
    # Below the mean, the other tail is the short series: 1 - P(X <= hits - 1).
    ratios = (k / (odds * (trials - k + 1)) for k in range(hits - 1, 0, -1))
    return max(
        0.0, 1.0 - _binomial_probability(hits - 1, trials, probability) * _sum_series(ratios)
    )


def _binomial_probability(hits: int, trials: int, probability: float) -> float:
    """Return P(X = hits)."""
    # As logarithms: the number of ways overflows for a text of a few hundred tokens.
    ways = math.lgamma(trials + 1) - math.lgamma(hits + 1) - math.lgamma(trials - hits + 1)
    return math.exp(
        ways + hits * math.log(probability) + (trials - hits) * math.log1p(-probability)
    )


def _sum_series(ratios: Iterable[float]) -> float:
    """Return 1 + r1 + r1 r2 + r1 r2 r3 + …, until a term is negligible."""
    terms = [1.0]
    for ratio in ratios:
        terms.append(terms[-1] * ratio)
        if terms[-1] < _NEGLIGIBLE:
            break
    return math.fsum(terms)


class WatermarkCount:
    """Running counts of a text: all draws, and distinct draws.

    Args:
        depth: trials per token: 1, or the number of SynthID's keys.
        expected: hit rate for z: the configured ratio, as in transformers' detector.
        chance: exact hit rate of unmarked text (the real share of the green list).
    """

    def __init__(self, depth: int, expected: float, chance: float) -> None:
        self.depth, self.expected, self.chance = depth, expected, chance
        self.tokens = self.hits = self.distinct_tokens = self.distinct_hits = 0

    def add(self, *, scored: bool, fresh: bool, hits: int) -> None:
        """Add a token: whether it is scored, whether its draw is fresh, and its hits."""
        self.tokens += scored
        self.hits += hits * scored
        self.distinct_tokens += scored and fresh
        self.distinct_hits += hits * (scored and fresh)

    @property
    def z_score(self) -> float | None:
        """The z-score so far, None if nothing was scored."""
        return z_score(self.hits, self.tokens * self.depth, self.expected)

    def verdict(self, threshold: float) -> Verdict | None:
        """Return the verdict on the text so far, None if nothing was scored.

        Args:
            threshold: z above which a text is predicted to be marked.
        """
        trials, distinct_trials = self.tokens * self.depth, self.distinct_tokens * self.depth
        z = self.z_score
        distinct_z = z_score(self.distinct_hits, distinct_trials, self.expected)
        if z is None or distinct_z is None:
            return None
        return Verdict(
            self.tokens,
            trials,
            self.hits,
            self.expected,
            self.hits / trials,
            z,
            distinct_trials,
            self.distinct_hits,
            distinct_z,
            binomial_tail(self.distinct_hits, distinct_trials, self.chance),
            normal_tail(z),
            threshold,
            z > threshold,
            z > threshold >= distinct_z,
        )


def watermark_verdict(
    counts: Iterable[tuple[bool, bool, int]],
    depth: int,
    expected: float,
    chance: float,
    threshold: float,
) -> Verdict | None:
    """Return the verdict on a text, None if nothing was scored.

    Args:
        counts: per token whether it is scored, whether its draw is fresh, and its hits.
        depth: trials per token: 1, or the number of SynthID's keys.
        expected: hit rate for z: the configured ratio, as in transformers' detector.
        chance: exact hit rate of unmarked text (the real share of the green list).
        threshold: z above which a text is predicted to be marked.
    """
    count = WatermarkCount(depth, expected, chance)
    for scored, fresh, hits in counts:
        count.add(scored=scored, fresh=fresh, hits=hits)
    return count.verdict(threshold)


def running_z_scores(
    counts: Iterable[tuple[bool, int]], depth: int, expected: float
) -> list[float | None]:
    """Return the z-score after every token.

    Args:
        counts: per token whether it is scored, and its hits.
        depth: trials per scored token.
        expected: hit rate of unmarked text.
    """
    count = WatermarkCount(depth, expected, expected)
    curve: list[float | None] = []
    for scored, hits in counts:
        count.add(scored=scored, fresh=True, hits=hits)
        curve.append(count.z_score)
    return curve
