"""The epsilon cutoff: removes tokens below a probability."""

from __future__ import annotations

from engine.declare.params import Number, param
from engine.messages import Message
from engine.number_text import format_percent, format_share
from engine.processors.filter import CUTS, Filter
from engine.processors.removal import Removal, RemovalCase, removal_at_most, token_name
from engine.processors.scores import distance_to_edge, log_value
from engine.statistics.term import Term


def explain(case: RemovalCase) -> Removal:
    """Return the least probability, and the cutoff that the token reaches."""
    given = float(case.processor.epsilon)
    why = Message(
        "The epsilon cutoff removed {name}: it has {percent}, and {share} is the least.",
        name=token_name(case),
        percent=format_percent(case.p),
        share=format_share(given),
    )
    return removal_at_most(
        case, why, "epsilon_cutoff", case.p, lambda v: case.with_value(epsilon=v), off=0.0
    )


FILTER = Filter(
    name="Epsilon",
    title="Epsilon cutoff",
    parameter="epsilon_cutoff",
    off=0.0,
    params={
        "epsilon_cutoff": param(
            Number(
                label="Epsilon cutoff",
                minimum=0,
                maximum=1,
                below_maximum=True,
                step=0.0001,
                group="sampling",
                help="Drop tokens below this probability; 0 is off.",
                papers=("2210.15191",),
            ),
            0.0,
        )
    },
    effect=CUTS,
    explain=explain,
    # In logits: p >= epsilon means score >= log(epsilon) + log(sum(exp(scores))).
    edge=lambda processor, scores, kept: distance_to_edge(
        scores, kept, scores.logsumexp(-1) + log_value(processor.epsilon)
    ),
    term=Term(
        "epsilon cutoff",
        "Removes every token whose probability is below this number.",
        params=("epsilon_cutoff",),
    ),
)
