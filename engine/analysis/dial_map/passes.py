"""Forward passes over the texts of a map: one batch for all, or one pass for each text."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch

from engine.loops.forward import Forward


class BatchedPasses:
    """One pass over the newest tokens of all texts, which share one cache.

    Args:
        forward: has not read anything yet.
        prompt: (1, length) ids.
        margin: nats by which the logits of a batched pass may differ from those of a pass alone.

    Attributes:
        ids: (texts, length) prompt and text so far.
        rows: rows of all passes so far.
    """

    def __init__(self, forward: Forward, prompt: torch.Tensor, margin: float) -> None:
        self.forward, self.ids, self.rows = forward, prompt, 0
        self._margin, self._was_batched = margin, False

    @property
    def margin(self) -> float:
        """Nats by which the newest logits may differ from those of a run; 0 if they are exact."""
        return self._margin if self._was_batched else 0.0

    def read(self) -> torch.Tensor:
        """Return (texts, vocab) float32 logits after the newest tokens."""
        self.rows += len(self.ids)
        # Once inexact, always: keys and values of a batched pass stay in the cache.
        self._was_batched = self._was_batched or len(self.ids) > 1
        return self.forward.last_logits(self.forward(self.ids), self.ids.device)

    def branch(self, parents: Sequence[int], tokens: Sequence[int]) -> None:
        """Continue text ``parents[i]`` with ``tokens[i]``; other texts end."""
        where, count = torch.tensor(parents), len(self.ids)
        self.ids = torch.cat([self.ids[where], torch.tensor(tokens)[:, None]], dim=1)
        self.forward.reorder(where)
        # Masks and positions have a row for each text; the cache was reordered above.
        self.forward.model_kwargs |= {
            name: value[where]
            for name, value in self.forward.model_kwargs.items()
            if isinstance(value, torch.Tensor) and value.dim() > 1 and len(value) == count
        }

    def read_alone(self, row: int) -> torch.Tensor:
        """Return (1, vocab) logits of one text, read pass by pass as in a run."""
        ids = self.ids[row : row + 1]
        self.rows += 1 + ids.shape[1] - self.forward.first
        again, outputs = self.forward.replay_alone(ids)
        return again.last_logits(outputs, ids.device)


class SinglePasses:
    """A separate pass over each text, so that all logits equal those of a run.

    Args:
        forward: has not read anything yet.
        prompt: (1, length) ids.

    Attributes:
        ids: (texts, length) prompt and text so far.
        rows: rows of all passes so far.
    """

    margin = 0.0

    def __init__(self, forward: Forward, prompt: torch.Tensor) -> None:
        self.ids, self.rows = prompt, 0
        self._forwards = [forward]

    def read(self) -> torch.Tensor:
        """Return (texts, vocab) float32 logits after the newest tokens."""
        self.rows += len(self.ids)
        found = [
            own.last_logits(own(self.ids[i : i + 1]), self.ids.device)
            for i, own in enumerate(self._forwards)
        ]
        return torch.cat(found)

    def branch(self, parents: Sequence[int], tokens: Sequence[int]) -> None:
        """Continue text ``parents[i]`` with ``tokens[i]``; other texts end."""
        self.ids = torch.cat([self.ids[torch.tensor(parents)], torch.tensor(tokens)[:, None]], 1)
        self._forwards = [_copy_forward(self._forwards[parent]) for parent in parents]

    def read_alone(self, row: int) -> torch.Tensor:
        """Never needed: no logits are inexact."""
        raise AssertionError(f"row {row} was read alone")


def _copy_forward(forward: Forward) -> Forward:
    other = copy.copy(forward)
    # With its cache: texts that part would otherwise write into one.
    other.model_kwargs = copy.deepcopy(forward.model_kwargs)
    return other
