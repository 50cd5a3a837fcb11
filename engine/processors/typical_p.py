"""Typical-p: keeps the tokens whose surprise is closest to the entropy."""

from __future__ import annotations

import math

from engine.declare.params import Number, param
from engine.messages import Message
from engine.number_text import format_number, format_share
from engine.processors.filter import CUTS, Filter
from engine.processors.removal import Removal, RemovalCase, removal_at_least, token_name
from engine.statistics.term import Term


def explain(case: RemovalCase) -> Removal:
    """Return the probability of the more typical tokens, and the typical-p that reaches it."""
    logprobs = case.scores.log_softmax(-1)
    entropy = -(logprobs * logprobs.exp()).nansum()
    off = (-logprobs - entropy).abs()
    # The same sums in the same order as in transformers' TypicalLogitsWarper, so that edges agree.
    order = off.sort()
    mass = case.scores[order.indices].softmax(-1).cumsum(-1)
    at = int((order.indices == case.token_id).nonzero())
    before = float(mass[at - 1]) if at else 0.0
    why = Message(
        "Typical-p removed {name}: its surprise is {bits} bits away from the "
        "expected one, and the tokens that are nearer already hold {share} of the "
        "probability.",
        name=token_name(case),
        bits=format_number(float(off[case.token_id] / math.log(2))),
        share=format_share(before),
    )
    facts = (
        (
            "Kept by more typical ones",
            format_share(before),
            "Typical-p stops when this reaches it.",
        ),
    )
    return removal_at_least(
        case, why, "typical_p", before, lambda v: case.with_value(mass=v), off=1.0, facts=facts
    )


FILTER = Filter(
    name="Typical",
    title="Typical-p",
    parameter="typical_p",
    off=1.0,
    params={
        "typical_p": param(
            Number(
                label="Typical-p",
                minimum=0,
                above_minimum=True,
                maximum=1,
                group="sampling",
                help="Keep the tokens whose surprise is closest to the expected one.",
                papers=("2202.00666",),
            ),
            1.0,
        )
    },
    effect=CUTS,
    explain=explain,
    term=Term(
        "typical-p",
        "Keeps the tokens whose surprise is closest to the entropy, until together they reach this "
        "probability.",
        "It may remove the most probable token: one that is too expected is not typical.",
        params=("typical_p",),
    ),
)
