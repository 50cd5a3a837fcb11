"""Whether two settings differ: a paired bootstrap over prompts and seeds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_RESAMPLES = 2_000
_LEVEL = 0.95


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of two settings, on prompts and seeds that both have."""

    mean: float
    low: float | None
    """Lower end of the 95 % interval, None if there is only one pair."""
    high: float | None
    seed_spread: float | None
    """Largest minus smallest mean of a seed, of the setting that varies more; None for one seed."""

    @property
    def is_clear(self) -> bool:
        """Whether the interval excludes 0, and the difference exceeds the spread of the seeds."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return False
        return self.seed_spread is None or abs(self.mean) > self.seed_spread


def compare_pairs(a: NDArray[np.float64], b: NDArray[np.float64]) -> PairedDifference | None:
    """Return how much larger ``a`` is than ``b``; None without a common value.

    Prompts and seeds are drawn again independently, with replacement (Efron & Tibshirani 1993),
    because all texts of a prompt share its difficulty, and all texts of a seed its luck.

    Args:
        a: (prompts, seeds) values, NaN where there is none.
        b: of the same shape.
    """
    gaps = a - b
    known = ~np.isnan(gaps)
    if not known.any():
        return None
    rows = known.any(axis=1)
    gaps, a, b = gaps[rows], a[rows], b[rows]
    mean = float(np.nanmean(gaps))
    spread = None
    if gaps.shape[1] > 1:
        by_seed = [np.nanmean(one[:, known.any(axis=0)], axis=0) for one in (a, b)]
        spread = max(float(one.max() - one.min()) for one in by_seed)
    if gaps.size < 2:
        return PairedDifference(mean, None, None, spread)
    # A fixed seed, so that a table always gets the same verdict.
    random = np.random.default_rng(0)
    prompts = random.integers(gaps.shape[0], size=(_RESAMPLES, gaps.shape[0], 1))
    seeds = random.integers(gaps.shape[1], size=(_RESAMPLES, 1, gaps.shape[1]))
    drawn = gaps[prompts, seeds].reshape(_RESAMPLES, -1)
    # A draw that has only missing pairs has no mean.
    means = np.nanmean(drawn[~np.isnan(drawn).all(axis=1)], axis=1)
    tail = (1 - _LEVEL) / 2
    low, high = (float(value) for value in np.quantile(means, [tail, 1 - tail]))
    return PairedDifference(mean, low, high, spread)
