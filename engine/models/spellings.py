"""All token sequences that write a text. A ban must cover them all: the model would use another one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from engine.declare.special_tokens import PARSE
from engine.messages import Message
from engine.models.model_types import Tokenizer
from engine.models.special_tokens import encode_word
from engine.models.text import Pieces, encode_inside

ANY_CASE = "(?i)"
"""Prefix of a text that is matched in any letter case."""
MAX_SPELLINGS = 64
"""Most token sequences per form of a text, shortest first; the others are improbable."""
_MAX_SHOWN = 6


def find_spellings(text: str, tokenizer: Tokenizer, pieces: Pieces) -> list[tuple[int, ...]]:
    """Return the id sequences that write a text, with and without a leading space.

    A token that holds the text and more, such as a plural, is not covered. A special token that the
    text spells is, as text and as itself.

    Args:
        text: with or without its leading space; after ``(?i)`` also in lower case, upper case and
            capitalised.
        tokenizer: a transformers tokenizer.
        pieces: its display pieces.
    """
    word = text.removeprefix(ANY_CASE).strip(" ") or text
    parsed = encode_word(tokenizer, word, None, PARSE)
    found = dict.fromkeys([tuple(parsed)] if pieces.special.intersection(parsed) else [])
    for form in word_forms(text):
        # The tokenizer's own spelling comes first: it need not be among the shortest ones.
        own = tuple(encode_inside(tokenizer, form))
        ways = islice(_yield_tokenizations(form, pieces.by_text), MAX_SPELLINGS)
        found |= dict.fromkeys([*([own] if own else []), *ways])
    return list(found)


def word_forms(text: str) -> list[str]:
    """Return the forms of a text that are banned: with and without a leading space, in any case after ``(?i)``."""
    any_case = text.startswith(ANY_CASE) and text != ANY_CASE
    text = text.removeprefix(ANY_CASE) if any_case else text
    word = text.lstrip(" ")
    if not word:
        return [text]
    cases = [word]
    if any_case:
        cases += [word.lower(), word.upper(), word.capitalize(), word.title()]
    return list(dict.fromkeys(form for case in cases for form in (f" {case}", case)))


def ban_message(text: str, ways: Sequence[Sequence[int]], pieces: Pieces) -> str:
    """Return the sentence that lists the id sequences of a banned text."""
    shown = [f"{list(ids)} {'|'.join(pieces[i] for i in ids)!r}" for ids in ways[:_MAX_SHOWN]]
    values = {"text": repr(text), "n": len(ways), "shown": ", ".join(shown)}
    if len(ways) == 1:
        return Message("bad_words_ids: {text} is banned in 1 spelling: {shown}.", **values)
    if len(ways) <= _MAX_SHOWN:
        return Message("bad_words_ids: {text} is banned in {n} spellings: {shown}.", **values)
    return Message(
        "bad_words_ids: {text} is banned in {n} spellings: {shown} and {more} more.",
        **values,
        more=len(ways) - _MAX_SHOWN,
    )


def _yield_tokenizations(text: str, ids: Mapping[str, Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Yield every id sequence whose pieces join to the text, shortest first."""
    longest = max(map(len, ids), default=0)
    after = [
        [
            (end, i)
            for end in range(n + 1, min(len(text), n + longest) + 1)
            for i in ids.get(text[n:end], ())
        ]
        for n in range(len(text))
    ]
    far = len(text) + 1
    fewest = [far] * len(text) + [0]
    for n in reversed(range(len(text))):
        # Tokens that the rest needs at least, so that no dead end is entered.
        fewest[n] = 1 + min((fewest[end] for end, _ in after[n]), default=far)

    def continued(start: int, count: int) -> Iterator[tuple[int, ...]]:
        if start == len(text):
            yield ()
            return
        for end, token_id in after[start]:
            if fewest[end] <= count - 1 and (end < len(text) or count == 1):
                yield from ((token_id, *rest) for rest in continued(end, count - 1))

    for count in range(1, len(text) + 1):
        yield from continued(0, count)
