"""The two-sided sign test."""

from __future__ import annotations

import math


def sign_test(wins: int, trials: int) -> float:
    """Return the two-sided p-value of ``wins`` in ``trials`` under a fair coin.

    Args:
        wins: 0 to ``trials``.
        trials: ties left out; 0 trials give 1.
    """
    fewer = min(wins, trials - wins)
    tail = sum(math.comb(trials, k) for k in range(fewer + 1))
    return min(1.0, 2 * tail / 2**trials)
