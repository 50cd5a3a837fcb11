"""What a grammar expected where it refused a token: the part of the token that fits, and what may follow."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from llguidance import LLMatcher

from engine.grammar.compile import make_byte_matcher, next_bytes
from engine.messages import Message, join_messages

_SETS = (
    (frozenset(b"0123456789"), Message("a digit")),
    (frozenset(range(97, 123)), Message("a small letter")),
    (frozenset(range(65, 91)), Message("a capital letter")),
    (frozenset(range(0xC2, 0xF5)), Message("a letter beyond A to Z")),
)
_NAMED = {9: Message("a tab"), 10: Message("a line break"), 32: Message("a space")}
_MOST_NAMED = 8
"""With more kinds of characters than these the sentence would be a list."""


@dataclass(frozen=True)
class Refusal:
    """Why a grammar refused a token.

    Attributes:
        fits: the beginning of the token that the grammar takes; may be empty.
        expected: in words, what may follow it.
        may_end: whether the text may end there.
    """

    fits: str
    expected: str
    may_end: bool


def find_refusal(grammar: str, written: bytes, token: bytes) -> Refusal | None:
    """Return why a token was refused; None if the text before it does not match the grammar.

    Args:
        grammar: the grammar in llguidance's format.
        written: the text so far.
        token: what the token writes.
    """
    matcher = make_byte_matcher(grammar)
    before = list(written)
    if matcher.validate_tokens(before) != len(before) or not matcher.consume_tokens(before):
        return None
    return refusal_after(matcher, token)


def refusal_after(matcher: LLMatcher, token: bytes) -> Refusal:
    """Return why a token was refused by a matcher over single bytes, which reads what fits of it."""
    fits = list(token)[: matcher.validate_tokens(list(token))]
    if fits:
        matcher.consume_tokens(fits)
    ends = bool(matcher.is_accepting())
    return Refusal(
        bytes(fits).decode("utf-8", "replace"), name_bytes(next_bytes(matcher), ends), ends
    )


def name_bytes(allowed: np.ndarray, end: bool) -> str:
    """Return in words which of (256,) bytes may come next, and the end if it may."""
    left = set(np.flatnonzero(allowed).tolist())
    names: list[str] = []
    for members, name in _SETS:
        # Any byte that begins a longer character is enough, since few grammars allow all of them.
        if members <= left or (min(members) > 127 and members & left):
            names.append(name)
            left -= members
    # A single byte of a longer character cannot be shown.
    left = {byte for byte in left if byte < 128}
    names += [
        _NAMED.get(byte) or f"“{chr(byte)}”"
        for byte in sorted(left)
        if byte >= 32 or byte in _NAMED
    ]
    if len(names) > _MOST_NAMED:
        names = [Message("many other characters")]
    if end:
        names.append(Message("the end"))
    return join_alternatives(names)


def join_alternatives(parts: list[str]) -> str:
    """Return "a", "a or b", or "a, b or c"."""
    if len(parts) < 2:
        return parts[0] if parts else Message("nothing")
    *head, last = parts
    return Message("{head} or {last}", head=join_messages(head, ", "), last=last)
