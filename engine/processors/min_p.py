"""Min-p: keeps tokens of at least a share of the best token's probability."""

from __future__ import annotations

from engine.declare.params import Number, param
from engine.messages import Message
from engine.number_text import format_percent, format_share, format_value
from engine.processors.filter import CUTS, Filter
from engine.processors.removal import Removal, RemovalCase, removal_at_most, token_name
from engine.processors.scores import distance_to_edge, log_value
from engine.statistics.term import Term


def explain(case: RemovalCase) -> Removal:
    """Return the token's share of the best probability, and the min-p that is no larger."""
    top = float(case.probs.max())
    ratio = case.p / top
    given = float(case.processor.min_p)
    why = Message(
        "Min-p removed {name}: with {percent} it has {share} of the best token's "
        "probability, and min_p = {given} asks for more.",
        name=token_name(case),
        percent=format_percent(case.p),
        share=format_share(ratio),
        given=format_value(given),
    )
    facts = (
        ("Share of the best", format_share(ratio), "Its probability over that of the best token."),
    )
    return removal_at_most(
        case, why, "min_p", ratio, lambda v: case.with_value(min_p=v), off=None, facts=facts
    )


FILTER = Filter(
    name="MinP",
    title="Min-p",
    parameter="min_p",
    off=None,
    params={
        "min_p": param(
            Number(
                label="Min-p",
                minimum=0,
                maximum=1,
                group="sampling",
                optional=True,
                help="Keep tokens with at least this share of the top token's probability.",
                papers=("2407.01082",),
            ),
            None,
        )
    },
    effect=CUTS,
    explain=explain,
    # In logits: p >= min_p * p_best means score >= best score + log(min_p).
    edge=lambda processor, scores, kept: distance_to_edge(
        scores, kept, scores.amax(-1) + log_value(processor.min_p)
    ),
    term=Term(
        "min-p",
        "Removes every token whose probability is below this share of the most probable token's.",
        "It is relative: with 0.1 and a best token of 50 %, the line lies at 5 %.",
        params=("min_p",),
    ),
)
