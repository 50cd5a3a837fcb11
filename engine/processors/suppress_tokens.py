"""Suppressed tokens: ids that are never generated."""

from __future__ import annotations

from engine.declare.params import param
from engine.declare.tokens import Tokens
from engine.messages import Message
from engine.processors.filter import Filter
from engine.processors.removal import Removal, RemovalCase, removal_by_id, token_name
from engine.processors.scores import no_stretch


def explain(case: RemovalCase) -> Removal:
    """Return that its id is suppressed."""
    why = Message("{name} is one of the suppressed ids.", name=token_name(case))
    return removal_by_id(case, why, "suppress_tokens")


FILTER = Filter(
    name="SuppressTokens",
    title="Suppressed tokens",
    parameter="suppress_tokens",
    off=None,
    params={
        "suppress_tokens": param(
            Tokens(
                label="Suppressed ids",
                help='Tokens that are never written, as ids or as text such as ["<|im_end|>"].',
                group="tokens",
                optional=True,
            ),
            None,
        )
    },
    explain=explain,
    stretch=no_stretch,
)
