"""Top-n-sigma: keeps the tokens whose logits are near the largest (Tang et al. 2024, 2411.07641).

Temperature stretches the largest logit and the deviation alike, so it does not change which tokens
are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.declare.params import Number, param
from engine.messages import Message
from engine.number_text import format_number, format_value
from engine.processors.filter import CUTS, Filter
from engine.processors.removal import Removal, RemovalCase, removal_at_least, token_name
from engine.statistics.term import Term

if TYPE_CHECKING:
    import torch

_MAXIMUM = 100.0


class TopNSigmaLogitsWarper:
    """Removes tokens whose logit is more than n standard deviations below the largest.

    The deviation is that of the logits that earlier processors have left, as in arXiv 2411.07641.
    """

    # An earlier filter may have turned -inf into the smallest float32, -3.4e38.
    removed_below = -1e38

    def __init__(self, n: float, min_tokens_to_keep: int = 1) -> None:
        self.n, self.min_tokens_to_keep = n, min_tokens_to_keep

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows, vocab) scores, -inf where a token is removed."""
        removed = scores < self.threshold(scores)[:, None]
        best = scores.topk(min(self.min_tokens_to_keep, scores.shape[-1])).indices
        return scores.masked_fill(removed.scatter(-1, best, False), float("-inf"))

    def threshold(self, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows,) lowest score that is kept."""
        return scores.amax(-1) - self.n * self.deviation(scores)

    def deviation(self, scores: torch.Tensor) -> torch.Tensor:
        """Return (rows,) standard deviation of the scores that are left."""
        # Not scores.std(): one -inf of an earlier filter would make it NaN.
        left = scores > self.removed_below
        count = left.sum(-1)
        mean = scores.where(left, 0.0).sum(-1) / count
        squares = (scores - mean[:, None]).where(left, 0.0).square().sum(-1)
        # Divided by n - 1, as torch.std does; a single token has no deviation.
        return (squares / (count - 1).clamp(min=1)).sqrt()


def explain(case: RemovalCase) -> Removal:
    """Return how far the token is from the largest logit, and the number that reaches it."""
    deviation = float(case.processor.deviation(case.before)[case.row])
    far = float(case.scores.max() - case.scores[case.token_id]) / deviation
    given = format_value(float(case.processor.n))
    why = Message(
        "Top-n-sigma removed {name}: its logit is {far} standard deviations below the largest, "
        "and top_n_sigma = {given} allows no more.",
        name=token_name(case),
        far=format_number(far),
        given=given,
    )
    facts = (
        (
            "Below the largest logit",
            f"{format_number(far)} σ",
            Message(
                "One standard deviation σ of the logits is {value} here.",
                value=format_number(deviation),
            ),
        ),
    )
    return removal_at_least(
        case,
        why,
        "top_n_sigma",
        far,
        lambda v: case.with_value(n=v),
        off=None,
        most=_MAXIMUM,
        facts=facts,
    )


FILTER = Filter(
    name="TopNSigma",
    title="Top-n-sigma",
    parameter="top_n_sigma",
    off=None,
    params={
        "top_n_sigma": param(
            Number(
                label="Top-n-sigma",
                minimum=0,
                above_minimum=True,
                maximum=_MAXIMUM,
                slider_maximum=3,
                step=0.05,
                group="sampling",
                optional=True,
                help="Keep tokens at most this many standard deviations below the largest logit.",
                papers=("2411.07641",),
            ),
            None,
        )
    },
    effect=CUTS,
    explain=explain,
    # No edge: the threshold moves with every logit, so small differences are not bounded here.
    term=Term(
        "top-n-sigma",
        "Removes every token whose logit is more than this many standard deviations below the largest. "
        "The deviation is that of all logits.",
        "A higher temperature does not let more tokens through: it stretches the logits and their deviation "
        "alike.",
        params=("top_n_sigma",),
    ),
    build=TopNSigmaLogitsWarper,
)
