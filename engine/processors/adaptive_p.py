"""Adaptive-p: favours tokens near a target probability (llama.cpp #17927)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.declare.params import Number, param
from engine.processors.filter import Filter
from engine.statistics.term import Term

if TYPE_CHECKING:
    import torch


class AdaptivePLogitsWarper:
    """Gives tokens near a target probability the largest scores, as adaptive-p of llama.cpp does.

    The target moves so that the drawn tokens have the wanted probability on average; the weights of
    earlier tokens fall by ``decay``. Probabilities are those that the filter receives.
    """

    # An earlier filter may have turned -inf into the smallest float32, -3.4e38.
    removed_below = -1e38
    # State after the last call: its texts' length, (rows,) weighted sum of the drawn probabilities and
    # sum of the weights, (rows,) targets, (rows, vocab) probabilities.
    length = -1
    total: torch.Tensor | None = None
    weight: torch.Tensor | None = None
    aim: torch.Tensor | None = None
    probs: torch.Tensor | None = None

    def __init__(self, target: float, decay: float = 0.9) -> None:
        self.target, self.decay = target, decay

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows, vocab) scores; tokens that earlier filters removed are -inf."""
        grown = input_ids.shape[1] - self.length
        if self.total is None or self.weight is None or self.probs is None or grown not in (0, 1):
            # As if the target had been met for long.
            self.weight = scores.new_full((len(scores),), 1 / (1 - self.decay))
            self.total = self.target * self.weight
        elif grown:
            # The last token is the one that was drawn.
            drawn = self.probs.gather(-1, input_ids[:, -1:])[:, 0]
            self.total = drawn + self.decay * self.total
            self.weight = 1 + self.decay * self.weight
        self.aim = (2 * self.target - self.total / self.weight).clamp(0, 1)
        self.length, self.probs = input_ids.shape[1], scores.softmax(-1)
        # 5, 10 and 0.3 are those of llama.cpp.
        far = (self.probs - self.aim[:, None]).abs() / 0.3
        near = 5.0 - 10.0 * far * far / (1 + far)
        return near.masked_fill(scores < self.removed_below, float("-inf"))

    @property
    def stage_state(self) -> torch.Tensor | None:
        """(rows,) probabilities that are favoured in this step, for the record."""
        return self.aim


FILTER = Filter(
    name="AdaptiveP",
    title="Adaptive-p",
    parameter="adaptive_target",
    off=None,
    params={
        "adaptive_target": param(
            Number(
                label="Adaptive-p target",
                minimum=0,
                above_minimum=True,
                maximum=1,
                group="sampling",
                optional=True,
                help="Favours tokens near this probability; set min-p, or rare tokens get through.",
            ),
            None,
        ),
        "adaptive_decay": param(
            Number(
                label="Adaptive-p memory",
                minimum=0,
                maximum=0.99,
                group="sampling",
                help="How much earlier tokens count for adaptive-p; 0 looks at the last one only.",
            ),
            0.9,
        ),
    },
    # No edge: small differences at earlier draws move the target.
    needs_rerun="adaptive-p's target follows from the tokens that were drawn before",
    term=Term(
        "adaptive-p",
        "Replaces the scores: a token is the likelier, the nearer its probability is to a target. The target "
        "moves so that the drawn tokens have it on average.",
        "It needs a filter before it, such as min-p: with a low target, it would take improbable tokens.",
        params=("adaptive_target",),
    ),
    build=AdaptivePLogitsWarper,
    settings=("adaptive_decay",),
    last=True,
)
