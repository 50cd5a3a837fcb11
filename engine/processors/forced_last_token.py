"""The forced last token, at max_new_tokens."""

from __future__ import annotations

from engine.declare.params import param
from engine.declare.tokens import Token
from engine.messages import Message
from engine.number_text import quote_token
from engine.processors.filter import Filter
from engine.processors.removal import Removal, RemovalCase, removal_until_off
from engine.processors.scores import no_stretch


def explain(case: RemovalCase) -> Removal:
    """Return the token that is forced instead."""
    # With several end tokens all of them get score 0; the sentence names the first.
    first = int(case.processor.eos_token_id.flatten()[0])
    why = Message("The last token is forced to be {piece}.", piece=quote_token(case.piece(first)))
    return removal_until_off(why, "forced_eos_token_id", None)


FILTER = Filter(
    name="ForcedEOSToken",
    title="Forced last token",
    parameter="forced_eos_token_id",
    off=None,
    params={
        "forced_eos_token_id": param(
            Token(
                label="Forced last token",
                help="The token at the limit of new tokens, as an id or as text.",
                group="tokens",
                optional=True,
            ),
            None,
        )
    },
    explain=explain,
    stretch=no_stretch,
)
