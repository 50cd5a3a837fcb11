"""Top-h: keeps the most probable tokens up to a share of the entropy."""

from __future__ import annotations

from engine.declare.params import Number, param
from engine.messages import Message
from engine.number_text import format_share, format_value
from engine.processors.filter import CUTS, Filter
from engine.processors.removal import (
    Removal,
    RemovalCase,
    removal_at_least,
    removal_until_off,
    token_name,
)
from engine.statistics.term import Term


def explain(case: RemovalCase) -> Removal:
    """Return the share of the entropy down to the token, and the top-h that allows it."""
    warper = case.processor
    # transformers measures the entropy of its 100 best tokens, not of the vocabulary.
    top = case.scores.topk(min(warper.top_n, len(case.scores)))
    found = (top.indices == case.token_id).nonzero()
    given = format_value(float(warper.top_h))
    if not len(found):
        why = Message(
            "Top-h removed {name}: it looks at the {top_n} best tokens only.",
            name=token_name(case),
            top_n=warper.top_n,
        )
        return removal_until_off(why, "top_h", None)
    logprobs = top.values.log_softmax(-1)
    # A token that an earlier filter removed gives 0 * inf = NaN. Those come last, so the sum down to this
    # token has none, and only the total needs nansum.
    terms = -logprobs.exp() * logprobs
    part = float(terms.cumsum(-1)[int(found[0])] / terms.nansum())
    told = format_share(part)
    why = Message(
        "Top-h removed {name}: the tokens down to it have {told} of the entropy, and top_h "
        "= {given} allows no more.",
        name=token_name(case),
        told=told,
        given=given,
    )
    facts = (("Entropy down to it", told, "Share of the entropy of the best tokens."),)
    return removal_at_least(
        case, why, "top_h", part, lambda v: case.with_value(top_h=v), off=None, facts=facts
    )


FILTER = Filter(
    name="TopH",
    title="Top-h",
    parameter="top_h",
    off=None,
    params={
        "top_h": param(
            Number(
                label="Top-h",
                minimum=0,
                above_minimum=True,
                maximum=1,
                group="sampling",
                optional=True,
                help="Keep the most likely tokens up to this share of the entropy.",
                papers=("2509.02510",),
            ),
            None,
        )
    },
    effect=CUTS,
    explain=explain,
    term=Term(
        "top-h",
        "Keeps the most probable tokens as long as the entropy of what is kept stays below this share of "
        "the whole distribution's.",
        params=("top_h",),
    ),
)
