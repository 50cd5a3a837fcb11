"""Grammar: the text must match a JSON schema, a regular expression, a list of texts or a grammar."""

from __future__ import annotations

from engine.declare.params import param
from engine.declare.structured_outputs import StructuredOutputs
from engine.grammar.microscope import find_refusal
from engine.messages import Message
from engine.number_text import quote_token
from engine.processors.filter import Filter
from engine.processors.removal import Removal, RemovalCase, removal_until_off, token_name
from engine.processors.scores import no_stretch
from engine.statistics.term import Term


def explain(case: RemovalCase) -> Removal:
    """Return which part of the token the grammar takes, and what it expected after it."""
    why = Message(
        "No text that structured_outputs allows goes on with {name} here: {reason}.",
        name=token_name(case),
        reason=_name_reason(case),
    )
    return removal_until_off(why, "structured_outputs", None)


def _name_reason(case: RemovalCase) -> str:
    processor = case.processor
    if case.token_id in processor.eos:
        return Message("the text is not complete")
    pieces = processor.table.tokens
    if case.token_id in processor.table.special_token_ids:
        return Message("a special token is no text")
    # Bytes, not text: a token may end inside a character.
    written = b"".join(pieces[i] for i in case.text[processor.start :])
    found = find_refusal(processor.grammar, written, pieces[case.token_id])
    if found is None:
        return Message("the text before it has left the grammar")
    if found.fits:
        fits = quote_token(found.fits)
        return Message("after {fits} it expects {expected}", fits=fits, expected=found.expected)
    return Message("it expects {expected}", expected=found.expected)


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
        codes=("grammar",),
        params=("structured_outputs",),
    ),
)
