"""The forced first token of an encoder-decoder model."""

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
    forced = case.processor.bos_token_id
    why = Message("The first token is forced to be {piece}.", piece=quote_token(case.piece(forced)))
    return removal_until_off(why, "forced_bos_token_id", None)


FILTER = Filter(
    name="ForcedBOSToken",
    title="Forced first token",
    parameter="forced_bos_token_id",
    off=None,
    params={
        # transformers forces it where the decoder has one id, its start token. A decoder-only model gets it
        # only after a prompt of one token.
        "forced_bos_token_id": param(
            Token(
                label="Forced first token",
                help="The first token, as an id or as text (encoder-decoder models).",
                group="tokens",
                optional=True,
            ),
            None,
        )
    },
    explain=explain,
    stretch=no_stretch,
)
