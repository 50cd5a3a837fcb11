"""Scores that a filter removed, and their distance to its edge. Rows are those of a batch.

Everything is a method of a tensor, so that this package needs no torch.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

IMPOSSIBLE_SCORE = float(np.finfo(np.float32).min) / 2
"""Scores below this mean removed: some processors write the smallest float, not -inf."""


def is_removed(scores: torch.Tensor, row: int, token_id: int) -> bool:
    """Return True if the token was removed."""
    # Negated, so that NaN counts as removed.
    return not float(scores[row, token_id]) > IMPOSSIBLE_SCORE


def lowest_kept(scores: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Return (rows,) lowest score of a kept token."""
    return scores.masked_fill(~kept, math.inf).amin(-1)


def highest_removed(scores: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Return (rows,) highest score of a removed token."""
    return scores.masked_fill(kept, -math.inf).amax(-1)


def gap_at_edge(scores: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Return (rows,) gap between the lowest kept and the highest removed score."""
    return lowest_kept(scores, kept) - highest_removed(scores, kept)


def distance_to_edge(scores: torch.Tensor, kept: torch.Tensor, edge: torch.Tensor) -> torch.Tensor:
    """Return (rows,) distance between ``edge`` and the nearest score on either side."""
    return (lowest_kept(scores, kept) - edge).minimum(edge - highest_removed(scores, kept)).abs()


def log_value(value: Any) -> Any:
    """Return the logarithm of a filter's value: a number, or (rows,) for a (rows, 1) column of values."""
    if not isinstance(value, (int, float)):
        return value[:, 0].log()
    # A min_p of 0 removes nothing, and its edge lies below every score.
    return math.log(value) if value > 0 else -math.inf


def at_least_one(factor: Any) -> Any:
    """Return a stretch raised to 1: a number, or (rows,) for a (rows, 1) column of values."""
    return max(1.0, factor) if isinstance(factor, (int, float)) else factor[:, 0].clamp(min=1.0)


def no_stretch(processor: object) -> float:
    """Return 1: the processor adds numbers, or removes tokens by the text alone."""
    del processor
    return 1.0
