"""Grammar: the text must match a JSON schema, a regular expression, a list of texts or a grammar."""

from __future__ import annotations

from engine.declare.params import param
from engine.declare.structured_outputs import StructuredOutputs
from engine.messages import Message
from engine.processors.filter import Filter
from engine.processors.removal import Removal, RemovalCase, removal_until_off, token_name
from engine.processors.scores import no_stretch
from engine.statistics.term import Term


def explain(case: RemovalCase) -> Removal:
    """Return that no text of the grammar goes on with the token."""
    why = Message(
        "No text that structured_outputs allows goes on with {name} here.", name=token_name(case)
    )
    return removal_until_off(why, "structured_outputs", None)


FILTER = Filter(
    name="Grammar",
    title="Grammar",
    parameter="structured_outputs",
    off=None,
    params={
        "structured_outputs": param(
            StructuredOutputs(
                label="Structured output",
                group="tokens",
                optional=True,
                help=(
                    "The text must match one of json (a schema), regex, choice (a list of texts) or grammar "
                    "(Lark)."
                ),
                papers=("2405.21047",),
            ),
            None,
        )
    },
    explain=explain,
    stretch=no_stretch,
    term=Term(
        "grammar",
        "Rules that say which texts are allowed, such as a JSON schema. At each step every token is removed "
        "that no allowed text goes on with.",
        "It fixes the form of a text, not its sense.",
        params=("structured_outputs",),
    ),
)
