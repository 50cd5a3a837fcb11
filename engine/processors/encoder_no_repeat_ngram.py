"""The ban on n-grams of the prompt."""

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

_MAX_SIZE = 32


def explain(case: RemovalCase) -> Removal:
    """Return the n-gram of the prompt, and the smallest larger n for which it has none."""
    size = case.processor.ngram_size
    text = case.ids[case.row].tolist()
    gram = [*text[len(text) - size + 1 :], case.token_id]
    why = Message(
        "{name} is banned: it would repeat {phrase} of the prompt.",
        name=token_name(case),
        phrase=quote_tokens(case, gram),
    )
    name, prompt = "encoder_no_repeat_ngram_size", list(case.prompt)
    # The processor reads the prompt in its constructor, so the check is repeated here.
    for value in range(size + 1, _MAX_SIZE + 1):
        gram = [*text[len(text) - value + 1 :], case.token_id]
        windows = (prompt[i : i + value] for i in range(len(prompt) - value + 1))
        if len(gram) < value or gram not in windows:
            return Removal(
                why, Message("at {parameter} ≥ {value}", parameter=name, value=value), {name: value}
            )
    return removal_until_off(case, why, name, 0)


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
                maximum=_MAX_SIZE,
                help="N-grams of the encoder input may not occur in the output; 0 is off.",
            ),
            0,
        )
    },
    explain=explain,
)
