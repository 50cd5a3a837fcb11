"""How surprising a count is: z-score, normal approximation and the exact tail. No torch.

Older versions of transformers took 1 - (1 + sign(z) (1 - exp(-2 z² / π))) / 2 for the normal
tail. Pólya's formula has a square root round the inner bracket; without it p is up to 1.8 times
too large below z = 3.3 and too small beyond. 5.23 uses erfc, as ``normal_tail`` does. Either is an
approximation: counts are whole numbers, and the exact one-sided p-value is ``binomial_tail``.

All of them take the counted tokens for independent, but a token that comes back after the same seed
comes back in the same colour and proves nothing new. ``ignore_repeated_ngrams`` mends that for
lefthash; selfhash over several tokens gives different n-grams the same draw when they share their
smallest hash. So p is taken over distinct draws, while z stays that of transformers' detector, and
a z that only repeats lift above the threshold is called doubtful.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

Z_THRESHOLD = 3.0
"""z above which a text is said to be marked, when nobody says otherwise."""
_NOTHING = 1e-18


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a count says about a text."""

    num_tokens_scored: int
    trials: int
    """Coin flips looked at: one a scored token, for SynthID one a scored token and key."""
    hits: int
    """Green tokens, for SynthID g-values of 1."""
    expected_fraction: float
    """Share of hits in text without this watermark."""
    fraction: float
    z_score: float
    distinct_trials: int
    """Coin flips that are no repeats of an earlier one."""
    distinct_hits: int
    distinct_z_score: float
    """z over these alone."""
    p_value: float
    """Exact: the chance of at least ``distinct_hits`` hits in ``distinct_trials`` flips."""
    p_value_normal: float
    z_threshold: float
    prediction: bool
    """z_score is above the threshold."""
    doubtful: bool
    """It is so only because repeats are counted: distinct_z_score is not."""

    @property
    def repeats(self) -> int:
        """Coin flips that came again."""
        return self.trials - self.distinct_trials


def z_score(hits: int, trials: int, expected: float) -> float | None:
    """Return how many standard deviations ``hits`` is above its mean, None without trials."""
    if not trials:
        return None
    return (hits - expected * trials) / math.sqrt(trials * expected * (1 - expected))


def normal_tail(z: float) -> float:
    """Return P(Z >= z) of a standard normal Z."""
    return 0.5 * math.erfc(z / math.sqrt(2))


def binomial_tail(hits: int, trials: int, probability: float) -> float:
    """Return P(X >= hits) of X ~ Binomial(trials, probability), exactly up to rounding.

    Args:
        hits: 0 to trials.
        trials: independent flips.
        probability: of a hit, above 0 and below 1.
    """
    if hits <= 0:
        return 1.0
    if hits > trials:
        return 0.0
    odds = probability / (1 - probability)
    # Away from the mean every term is smaller than the one before, so few of them count.
    if hits > trials * probability:
        ratios = (odds * (trials - k) / (k + 1) for k in range(hits, trials))
        return min(1.0, _mass(hits, trials, probability) * _series(ratios))
    ratios = (k / (odds * (trials - k + 1)) for k in range(hits - 1, 0, -1))
    return max(0.0, 1.0 - _mass(hits - 1, trials, probability) * _series(ratios))


def _mass(hits: int, trials: int, probability: float) -> float:
    """Return P(X = hits)."""
    ways = math.lgamma(trials + 1) - math.lgamma(hits + 1) - math.lgamma(trials - hits + 1)
    return math.exp(
        ways + hits * math.log(probability) + (trials - hits) * math.log1p(-probability)
    )


def _series(ratios: Iterable[float]) -> float:
    """Return 1 + r1 + r1 r2 + r1 r2 r3 + …, as far as it makes a difference."""
    terms = [1.0]
    for ratio in ratios:
        terms.append(terms[-1] * ratio)
        if terms[-1] < _NOTHING:
            break
    return math.fsum(terms)


class Count:
    """What has been counted of a text, token by token: every draw, and each draw once.

    Args:
        depth: coin flips a token: 1, or the number of SynthID's keys.
        expected: mean fraction for z; the ratio as configured, as transformers' detector has it.
        chance: exact probability of a hit in unmarked text (the list's real share).
    """

    def __init__(self, depth: int, expected: float, chance: float) -> None:
        self.depth, self.expected, self.chance = depth, expected, chance
        self.tokens = self.hits = self.distinct_tokens = self.distinct_hits = 0

    def add(self, *, scored: bool, fresh: bool, hits: int) -> None:
        """Take a token: whether it is scored, whether its draw is fresh, and its hits."""
        self.tokens += scored
        self.hits += hits * scored
        self.distinct_tokens += scored and fresh
        self.distinct_hits += hits * (scored and fresh)

    @property
    def z_score(self) -> float | None:
        """Z of what was scored so far, None when nothing was."""
        return z_score(self.hits, self.tokens * self.depth, self.expected)

    def verdict(self, threshold: float) -> Verdict | None:
        """Return the verdict on the text so far, None when nothing was scored.

        Args:
            threshold: z above which a text is said to be marked.
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


def verdict(
    counts: Iterable[tuple[bool, bool, int]],
    depth: int,
    expected: float,
    chance: float,
    threshold: float,
) -> Verdict | None:
    """Return the verdict on a text, None when nothing was scored.

    Args:
        counts: per token whether it is scored, whether its draw is fresh, and its hits.
        depth: coin flips a token: 1, or the number of SynthID's keys.
        expected: mean fraction for z; the ratio as configured, as transformers' detector has it.
        chance: exact probability of a hit in unmarked text (the list's real share).
        threshold: z above which a text is said to be marked.
    """
    count = Count(depth, expected, chance)
    for scored, fresh, hits in counts:
        count.add(scored=scored, fresh=fresh, hits=hits)
    return count.verdict(threshold)


def running_z(
    counts: Iterable[tuple[bool, int]], depth: int, expected: float
) -> list[float | None]:
    """Return z after every token.

    Args:
        counts: per token whether it is scored and how many hits it brings.
        depth: coin flips a scored token.
        expected: mean fraction of hits.
    """
    count = Count(depth, expected, expected)
    curve = []
    for scored, hits in counts:
        count.add(scored=scored, fresh=True, hits=hits)
        curve.append(count.z_score)
    return curve
