"""Allowed continuations: the output must be one of them."""

from __future__ import annotations

from engine.declare.params import AllowedTokens, param
from engine.messages import Message
from engine.processors.filter import Filter
from engine.processors.removal import Removal, RemovalCase, removal_until_off, token_name
from engine.processors.scores import no_stretch


def explain(case: RemovalCase) -> Removal:
    """Return that the token leaves them, and a longer list that has it."""
    allowed = case.config.prefix_allowed_tokens_fn
    new = case.text[len(case.text) - case.new :] if case.new else []
    why = Message("{name} would leave the allowed continuations.", name=token_name(case))
    # A function has no list of continuations to add the text to.
    if callable(allowed):
        return removal_until_off(why, "prefix_allowed_tokens_fn", None)
    entries = [*(list(entry) for entry in allowed), [*new, case.token_id]]
    survives = "when the text with it is an allowed continuation, too"
    return Removal(why, survives, {"prefix_allowed_tokens_fn": entries})


FILTER = Filter(
    name="PrefixConstrained",
    title="Allowed continuations",
    parameter="prefix_allowed_tokens_fn",
    off=None,
    params={
        "prefix_allowed_tokens_fn": param(
            AllowedTokens(
                label="Allowed continuations",
                group="tokens",
                optional=True,
                help="The output must be one of these continuations.",
            ),
            None,
        )
    },
    explain=explain,
    stretch=no_stretch,
)
