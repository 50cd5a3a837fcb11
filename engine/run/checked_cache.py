"""The cache of a batched run, which knows where batching could change its tokens.

Deferred by ``playground/shell/lazy_imports.py``, as its base class needs transformers.
"""

from __future__ import annotations

import torch

from engine.loops import tolerance
from engine.loops.recorder import Stages
from engine.models.model_types import Processors
from engine.models.slots import SharedCache


class CheckedCache(SharedCache):
    """A cache that knows which decisions the inexact logits of batched passes could change."""

    def check_processors(self, processors: Processors) -> None:
        """Keep the run out of batches if the tolerance of a processor is unknown."""
        self.apart = not tolerance.has_known_tolerance(processors)

    def may_change_decision(
        self,
        stages: Stages,
        logits: torch.Tensor,
        processors: Processors,
        noise: torch.Tensor | None,
    ) -> bool:
        """Return whether exact logits might give another token; see ``tolerance``."""
        return tolerance.may_change_decision(stages, logits, processors, noise, self.tolerance)
