"""Where several runs of one prompt diverge. Plain traces, no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from engine.trace.records import Trace

Token = int | str


@dataclass(frozen=True)
class TokenEdit:
    """An edit of the token difference of two outputs: [a0, a1) against [b0, b1)."""

    kind: str
    """equal, replace, delete (only in a) or insert (only in b)."""
    a0: int
    a1: int
    b0: int
    b1: int


def output_tokens(trace: Trace, *, by_id: bool) -> list[Token]:
    """Return the first output as ids, or as pieces if vocabularies differ."""
    ids = trace.outputs[0].token_ids if trace.outputs else ()
    return list(ids) if by_id else [trace.pieces.get(i, f"#{i}") for i in ids]


def has_comparable_ids(traces: Sequence[Trace]) -> bool:
    """Return whether ids of all runs are comparable.

    They are if vocabulary size and prompt ids are equal and no id stands for two pieces. A server
    must report the first two; its pieces do not count, as it may spell special tokens otherwise.
    """
    first = traces[0]
    if any(t.served is not None and not (t.prompt_ids and t.model.vocab_size) for t in traces):
        return False
    pieces: dict[int, str] = {}
    return all(
        t.model.vocab_size == first.model.vocab_size
        and t.prompt_ids == first.prompt_ids
        and (
            t.served is not None
            or all(pieces.setdefault(i, piece) == piece for i, piece in t.pieces.items())
        )
        for t in traces
    )


def common_prefix_length(
    texts: Sequence[Sequence[Token]], ended: Sequence[bool]
) -> tuple[int, bool]:
    """Return the length of the common prefix of all texts, and whether they diverge after it.

    Args:
        texts: two or more.
        ended: whether each text is complete; an unfinished one may still agree with the others.
    """
    for position in range(max(map(len, texts))):
        there = [position < len(text) for text in texts]
        here = {
            text[position] if known else None
            for text, known, whole in zip(texts, there, ended, strict=True)
            if known or whole
        }
        if len(here) > 1:
            return position, True
        if not all(known or whole for known, whole in zip(there, ended, strict=True)):
            return position, False
    return max(map(len, texts)), False


def diff_tokens(a: Sequence[Token], b: Sequence[Token]) -> tuple[TokenEdit, ...]:
    """Return the token difference of two outputs as edits that cover both."""
    # autojunk ignores the frequent tokens of long texts, such as commas.
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    return tuple(TokenEdit(*code) for code in matcher.get_opcodes())
