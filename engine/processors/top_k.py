"""Top-k: keeps the k most probable tokens."""

from __future__ import annotations

from engine.declare.params import Integer, param
from engine.messages import Message
from engine.processors.filter import CUTS, Filter
from engine.processors.removal import Removal, RemovalCase, token_name
from engine.processors.scores import gap_at_edge
from engine.statistics.term import Term


def explain(case: RemovalCase) -> Removal:
    """Return the token's place, and the k that reaches it."""
    # transformers removes scores below the k-th one, so equal scores stay together: only larger ones count.
    place = int((case.scores > case.scores[case.token_id]).sum()) + 1
    kept = case.processor.top_k
    why = Message(
        "Top-k removed {name}: it is number {place}, and only the first {kept} stay.",
        name=token_name(case),
        place=f"{place:,}",
        kept=f"{kept:,}",
    )
    facts = (
        (
            "Place at top-k",
            f"{place:,}",
            Message("Counted where top-k looked; {kept} are kept.", kept=f"{kept:,}"),
        ),
    )
    return Removal(
        why,
        Message("at {parameter} ≥ {value}", parameter="top_k", value=place),
        {"top_k": place},
        case.with_value(top_k=place),
        facts,
    )


FILTER = Filter(
    name="TopK",
    title="Top-k",
    parameter="top_k",
    off=0,
    params={
        "top_k": param(
            Integer(
                label="Top-k",
                minimum=0,
                maximum=1_000_000_000,
                slider_maximum=200,
                help="Keep the k most probable tokens; 0 is off.",
                papers=("1805.04833",),
            ),
            # The default of transformers' generate(do_sample=True).
            50,
        )
    },
    effect=CUTS,
    explain=explain,
    edge=lambda processor, scores, kept: gap_at_edge(scores, kept),
    term=Term(
        "top-k",
        "Keeps the k most probable tokens and removes the rest.",
        "The same k is generous where the model is sure and strict where it is not.",
        params=("top_k",),
    ),
)
