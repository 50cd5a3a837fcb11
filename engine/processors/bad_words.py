"""Banned words."""

from __future__ import annotations

from engine.declare.params import TokenLists, param
from engine.messages import Message
from engine.processors.filter import Filter
from engine.processors.removal import Removal, RemovalCase, quote_tokens, token_name
from engine.processors.scores import no_stretch
from engine.settings import SETTINGS


def explain(case: RemovalCase) -> Removal:
    """Return the banned word that the token would complete."""
    text, token = case.text, case.token_id
    entries: list[list[int]] = [list(entry) for entry in case.config.bad_words_ids]
    hits = [e for e in entries if e[-1] == token and text[len(text) - len(e) + 1 :] == e[:-1]]
    rest = [e for e in entries if e not in hits]
    phrase = quote_tokens(case, hits[0]) if hits else token_name(case)
    why = Message(
        "{name} is banned: {phrase} is one of the banned words.",
        name=token_name(case),
        phrase=phrase,
    )
    # A new processor: a copy would keep the table of biases that transformers makes from the list once.
    instead = type(case.processor)(rest) if rest else None
    survives = "when that word is not banned"
    return Removal(why, survives, {"bad_words_ids": rest or None}, instead)


FILTER = Filter(
    name="NoBadWords",
    title="Banned words",
    parameter="bad_words_ids",
    off=None,
    params={
        "bad_words_ids": param(
            TokenLists(
                label="Banned words",
                help=(
                    "Texts or token ids that may not be written. A text is banned in any split into "
                    "tokens, with and without a space before it. Start it with (?i) to ignore case. A "
                    "special token's name bans that token, too."
                ),
                group="tokens",
                optional=True,
                maximum_items=SETTINGS.max_banned_sequences,
            ),
            None,
        )
    },
    explain=explain,
    stretch=no_stretch,
)
