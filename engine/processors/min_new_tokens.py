"""The minimum of new tokens: end-of-sequence is forbidden before it."""

from __future__ import annotations

from engine.declare.params import Integer, param
from engine.messages import Message
from engine.processors.filter import Filter
from engine.processors.removal import Removal, RemovalCase, token_name
from engine.processors.scores import no_stretch
from engine.settings import SETTINGS


def explain(case: RemovalCase) -> Removal:
    """Return after how many tokens it would end the text."""
    least = case.config.min_new_tokens
    why = Message(
        "{name} would end the text after {new} tokens, and min_new_tokens = {least} forbids that.",
        name=token_name(case),
        new=case.new,
        least=least,
    )
    # An end token may follow as soon as min_new_tokens tokens are written, so ``new`` itself is enough.
    return Removal(
        why,
        Message("at {parameter} ≤ {value}", parameter="min_new_tokens", value=case.new),
        {"min_new_tokens": case.new or None},
    )


FILTER = Filter(
    name="MinNewTokensLength",
    title="Minimum tokens",
    parameter="min_new_tokens",
    off=None,
    params={
        "min_new_tokens": param(
            Integer(
                label="Minimum tokens",
                help="The text cannot end before this many tokens.",
                group="length",
                minimum=0,
                maximum=SETTINGS.max_new_tokens,
                optional=True,
            ),
            None,
        )
    },
    explain=explain,
    stretch=no_stretch,
)
