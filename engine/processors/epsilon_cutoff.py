"""The epsilon cutoff: removes tokens below a probability."""

from __future__ import annotations

import math

from engine.declare.params import Number, param
from engine.messages import Message
from engine.number_text import format_percent, format_share, format_value, round_down_until
from engine.processors.filter import CUTS, Filter
from engine.processors.removal import Removal, RemovalCase, removal_until_off, token_name
from engine.processors.scores import distance_to_edge
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
    value = round_down_until(case.p, lambda v: case.is_kept_by(case.with_value(epsilon=v)), 0.0)
    if value is None:
        return removal_until_off(why, "epsilon_cutoff", 0.0)
    changes, instead = {"epsilon_cutoff": value}, case.with_value(epsilon=value)
    return Removal(
        why, Message("at epsilon_cutoff ≤ {value}", value=format_value(value)), changes, instead
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
    edge=lambda processor, scores, kept: distance_to_edge(
        scores, kept, scores.logsumexp(-1) + math.log(processor.epsilon)
    ),
    term=Term(
        "epsilon cutoff",
        "Removes every token whose probability is below this number.",
        params=("epsilon_cutoff",),
    ),
)
