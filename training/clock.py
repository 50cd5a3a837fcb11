"""What runs that end with the clock have in common: the learning rate's course, and checkpoints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

SAVE_SECONDS = 150
_WARM_UP_STEPS = 100
_STEADY_SHARE = 0.4
_LEAST = 0.01


def learning_scale(step: int, progress: float) -> float:
    """Return by what the learning rates are multiplied, in (0, 1].

    Args:
        step: updates made before.
        progress: share of the time that is over, in [0, 1].
    """
    falling = max(_LEAST, (1 - progress) / (1 - _STEADY_SHARE))
    return min(1.0, (step + 1) / _WARM_UP_STEPS) * (1.0 if progress < _STEADY_SHARE else falling)


def save(state: dict[str, Any], path: Path) -> None:
    """Write a checkpoint so that whenever it is stopped, a whole one is there."""
    torch.save(state, path.with_suffix(".part"))
    os.replace(path.with_suffix(".part"), path)
