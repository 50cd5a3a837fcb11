"""The ban on repeated n-grams."""

from __future__ import annotations

from engine.declare.params import Integer, param
from engine.messages import Message
from engine.processors.filter import Filter
from engine.processors.removal import (
    Removal,
    RemovalCase,
    quote_tokens,
    removal_until_off,
    token_name,
)
from engine.processors.scores import no_stretch

_MAX_SIZE = 32


def explain(case: RemovalCase) -> Removal:
    """Return the n-gram that would repeat, and the smallest larger n for which none does."""
    size = case.processor.ngram_size
    text = case.ids[case.row].tolist()
    gram = [*text[len(text) - size + 1 :], case.token_id]
    why = Message(
        "{name} is banned: it would repeat {phrase}.",
        name=token_name(case),
        phrase=quote_tokens(case, gram),
    )
    for value in range(size + 1, _MAX_SIZE + 1):
        instead = case.with_value(ngram_size=value)
        if case.is_kept_by(instead):
            name = "no_repeat_ngram_size"
            survives = Message("at {parameter} ≥ {value}", parameter=name, value=value)
            return Removal(why, survives, {name: value}, instead)
    return removal_until_off(case, why, "no_repeat_ngram_size", 0)


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
                maximum=_MAX_SIZE,
                help="N-grams of this size may occur only once; 0 is off.",
            ),
            0,
        )
    },
    explain=explain,
    stretch=no_stretch,
)
