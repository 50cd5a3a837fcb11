"""Notes about a run with ``structured_outputs``: what to know before it, and texts that are not complete."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from engine.grammar.compile import make_byte_matcher, next_bytes
from engine.messages import Message
from engine.models.structured_outputs import compile_structured_outputs
from engine.number_text import quote_token

if TYPE_CHECKING:
    from engine.run.preparation import Prepared
    from engine.strategies.shared_params import NextTokenParams

_SPACE = ord(" ")
_WHITESPACE_TAIL = 16
"""So many characters of white space at the end of an unfinished text are a loop."""


def prompt_space_notes(config: NextTokenParams, preceding: str) -> list[str]:
    """Return a note if the prompt ends in the space that the model would begin a word with.

    Args:
        config: the strategy's config, with a grammar.
        preceding: the text that an output continues.

    Raises:
        ParameterError: the grammar cannot be used.
    """
    if not preceding.endswith(" "):
        return []
    # Over single bytes: the question is about the text, whatever tokens the model has.
    matcher = make_byte_matcher(compile_structured_outputs(config.structured_outputs))
    if next_bytes(matcher)[_SPACE]:
        return []
    return [
        Message(
            "The prompt ends in a space, and structured_outputs begins without one. Most models write the space "
            "with the next word: end the prompt without it, and begin the pattern with it."
        )
    ]


def incomplete_notes(run: Prepared, results: Sequence[Sequence[int]]) -> tuple[str, ...]:
    """Return a note for every text that ended before it matched its grammar.

    Args:
        run: the prepared run.
        results: new ids of every text.
    """
    return tuple(
        note
        for processor in run.grammars
        for number, ids in enumerate(results, 1)
        for note in _notes_of_text(
            processor, run.continued_ids, ids, number, run.config.max_new_tokens
        )
    )


def _notes_of_text(
    processor: Any,
    before: Sequence[int],
    ids: Sequence[int],
    number: int,
    limit: int,
) -> Iterator[str]:
    if set(ids) & set(processor.eos):  # the grammar allows an end only where the text is complete
        return
    matcher = processor.matcher((*before, *ids))
    if matcher is not None and matcher.is_accepting():
        return
    late = Message("the token limit came first")
    why = late if len(ids) >= limit else Message("it was ended first")
    yield Message("Text {n} is not complete under structured_outputs: {why}.", n=number, why=why)
    if matcher is None:
        return
    missing = matcher.compute_ff_bytes().decode("utf-8", "replace")
    if missing:
        yield Message("Text {n} goes on with {text}.", n=number, text=quote_token(missing))
    if _ends_in_whitespace(processor, ids):
        yield Message(
            "Text {n} ends in white space, which its grammar allows without end; structured_outputs can limit it.",
            n=number,
        )


def _ends_in_whitespace(processor: Any, ids: Sequence[int]) -> bool:
    tail = b"".join(processor.table.tokens[i] for i in ids[-_WHITESPACE_TAIL:])
    return len(tail) >= _WHITESPACE_TAIL and not tail[-_WHITESPACE_TAIL:].strip()
