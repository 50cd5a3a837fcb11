"""How little a few votes prove: the sign test."""

from __future__ import annotations

import math


def sign_test(wins: int, trials: int) -> float:
    """Return the two-sided p-value of so many wins in trials of which chance would win every second.

    Args:
        wins: 0 to ``trials``.
        trials: those without a winner are not among them; 0 proves nothing, which is a p-value of 1.
    """
    fewer = min(wins, trials - wins)
    tail = sum(math.comb(trials, k) for k in range(fewer + 1))
    return min(1.0, 2 * tail / 2**trials)
