"""The ban on repeated n-grams."""

from __future__ import annotations

from typing import Any

from engine.declare.params import Integer, param
from engine.messages import Message
from engine.processors.filter import Filter
from engine.processors.removal import (
    MAX_NGRAM,
    Removal,
    RemovalCase,
    ending_ngram,
    quote_tokens,
    removal_by_ngram,
    token_name,
)
from engine.processors.scores import no_stretch


def explain(case: RemovalCase) -> Removal:
    """Return the n-gram that would repeat, and the smallest larger n for which none does."""
    why = Message(
        "{name} is banned: it would repeat {phrase}.",
        name=token_name(case),
        phrase=quote_tokens(case, ending_ngram(case, case.processor.ngram_size)),
    )

    def resize(size: int) -> Any:
        return case.with_value(ngram_size=size)

    return removal_by_ngram(case, why, "no_repeat_ngram_size", resize)


FILTER = Filter(
    name="NoRepeatNGram",
    title="No-repeat n-gram",
    parameter="no_repeat_ngram_size",
    off=0,
    params={
        "no_repeat_ngram_size": param(
            Integer(
                label="No-repeat n-gram",
                group="penalties",
                minimum=0,
                maximum=MAX_NGRAM,
                help="Groups of this many tokens may occur only once; 0 is off.",
            ),
            0,
        )
    },
    explain=explain,
    stretch=no_stretch,
)
