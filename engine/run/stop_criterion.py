"""Ends the loop of a run that was cancelled or reached its time limit."""

from __future__ import annotations

import threading
from typing import Any

import torch

from engine.errors import DecodeError
from engine.timing_noise import work_time


def time_limit_error(limit_s: float) -> DecodeError:
    """Return the error of an analysis that took longer than a run may."""
    return DecodeError(
        "The limit of {max_runtime_s} seconds was reached.", max_runtime_s=f"{limit_s:g}"
    )


class StopCriterion:
    """A stopping criterion that ends a cancelled run, or one past its time limit.

    Args:
        cancelled: stops the run when set.
        deadline: ``work_time`` at which the run must end; pauses do not count.
    """

    def __init__(self, cancelled: threading.Event, deadline: float) -> None:
        self.cancelled, self.deadline = cancelled, deadline
        self.expired = False

    def __call__(
        self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any
    ) -> torch.Tensor:
        """Return (batch,) bools, all True if the run must end."""
        del scores, kwargs
        self.expired = self.expired or work_time() > self.deadline
        stop = self.cancelled.is_set() or self.expired
        # One value per row: generate() combines it with the criteria that end single rows.
        return torch.full((input_ids.shape[0],), stop, device=input_ids.device, dtype=torch.bool)
