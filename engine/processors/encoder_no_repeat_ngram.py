"""The ban on n-grams of the prompt."""

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


def explain(case: RemovalCase) -> Removal:
    """Return the n-gram of the prompt, and the smallest larger n for which it has none."""
    why = Message(
        "{name} is banned: it would repeat {phrase} of the prompt.",
        name=token_name(case),
        phrase=quote_tokens(case, ending_ngram(case, case.processor.ngram_size)),
    )
    # The processor reads the prompt in its constructor; every row has the same.
    prompt = case.ids.new_tensor([list(case.prompt)])

    def resize(size: int) -> Any:
        return type(case.processor)(size, prompt)

    return removal_by_ngram(case, why, "encoder_no_repeat_ngram_size", resize)


FILTER = Filter(
    name="EncoderNoRepeatNGram",
    title="Encoder no-repeat n-gram",
    parameter="encoder_no_repeat_ngram_size",
    off=0,
    params={
        "encoder_no_repeat_ngram_size": param(
            Integer(
                label="Encoder no-repeat n-gram",
                group="penalties",
                minimum=0,
                maximum=MAX_NGRAM,
                help="Groups of this many tokens from the input may not occur in the output; 0 is off.",
            ),
            0,
        )
    },
    explain=explain,
)
