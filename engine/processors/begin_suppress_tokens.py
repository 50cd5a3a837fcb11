"""Suppressed first tokens: ids that may not come first."""

from __future__ import annotations

from engine.declare.params import param
from engine.declare.tokens import Tokens
from engine.messages import Message
from engine.processors.filter import Filter
from engine.processors.removal import Removal, RemovalCase, removal_by_id, token_name
from engine.processors.scores import no_stretch


def explain(case: RemovalCase) -> Removal:
    """Return that its id may not come first."""
    why = Message("{name} is one of the ids that may not come first.", name=token_name(case))
    return removal_by_id(case, why, "begin_suppress_tokens")


FILTER = Filter(
    name="SuppressTokensAtBegin",
    title="Suppressed first tokens",
    parameter="begin_suppress_tokens",
    off=None,
    params={
        "begin_suppress_tokens": param(
            Tokens(
                label="Suppressed first ids",
                help="Tokens that may not come first, as ids or as text.",
                group="tokens",
                optional=True,
            ),
            None,
        )
    },
    explain=explain,
    stretch=no_stretch,
)
