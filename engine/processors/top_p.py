"""Top-p, nucleus sampling: keeps the most probable tokens that together reach a probability."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine.declare.params import Number, param
from engine.messages import Message
from engine.number_text import format_share, format_value
from engine.processors.filter import CUTS, Filter
from engine.processors.removal import Removal, RemovalCase, removal_at_least, token_name
from engine.processors.scores import gap_at_edge
from engine.statistics.term import Term

if TYPE_CHECKING:
    import torch


def explain(case: RemovalCase) -> Removal:
    """Return the probability of the tokens before it, and the top-p that reaches it."""
    # Ascending, as in transformers' TopPLogitsWarper: another order of the sum rounds differently, and
    # equal scores would be ordered differently.
    order = case.scores.sort(descending=False)
    mass = order.values.softmax(-1).cumsum(-1)
    at = int((order.indices == case.token_id).nonzero())
    before = 1 - float(mass[at])
    given = case.processor.top_p
    why = Message(
        "Top-p removed {name}: the tokens before it already hold {share} of the "
        "probability, and top_p = {given} asks for no more.",
        name=token_name(case),
        share=format_share(before),
        given=format_value(given),
    )
    facts = (
        ("Kept before it", format_share(before), "Top-p keeps tokens until this reaches top_p."),
    )
    return removal_at_least(
        case, why, "top_p", before, lambda v: case.with_value(top_p=v), off=1.0, facts=facts
    )


def edge_distance(processor: Any, scores: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """Return (rows,) distance to the edge, the smaller of mass and score."""
    # top-p compares the mass both with and without the last kept token.
    probs = scores.softmax(-1)
    mass = probs.where(kept, 0.0).sum(-1)
    last = probs.masked_fill(~kept, float("inf")).amin(-1)
    edge = (mass - processor.top_p).abs().minimum((mass - last - processor.top_p).abs())
    # Two scores at the edge may also change places without a change of the mass.
    return edge.minimum(gap_at_edge(scores, kept))


FILTER = Filter(
    name="TopP",
    title="Top-p",
    parameter="top_p",
    off=1.0,
    params={
        "top_p": param(
            Number(
                label="Top-p",
                minimum=0,
                above_minimum=True,
                maximum=1,
                help="Keep the most likely tokens that together reach this probability.",
                papers=("1904.09751",),
            ),
            1.0,
        )
    },
    effect=CUTS,
    explain=explain,
    edge=edge_distance,
    term=Term(
        "top-p",
        "Keeps the most probable tokens until together they reach p, and removes the rest; "
        "also called nucleus sampling. How many stay changes from step to step.",
        "The token that crosses the line stays, so slightly more than p is kept.",
        params=("top_p",),
    ),
)
