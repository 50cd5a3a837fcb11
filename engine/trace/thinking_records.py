"""What a trace says of the thinking sections of its texts."""

from __future__ import annotations

from dataclasses import dataclass

from engine.trace.value_types import TokenId


@dataclass(frozen=True, slots=True)
class ThinkingSection:
    """A part of a text that is the model's thinking, between two marks."""

    start: int
    """Index of its first token in the text, after the mark that begins it."""
    end: int
    """Index after the mark that ends it, or the length of the text."""
    closed: bool
    """Whether the text has that mark."""
    forced: int | None = None
    """Index of the first token that the thinking budget forced, up to ``end``; None if it forced none."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """The thinking sections of a run."""

    begin: str
    """The mark that begins a section."""
    close: str
    """The mark that ends it."""
    texts: tuple[tuple[ThinkingSection, ...], ...]
    """The sections of every output, in order."""
    forced: tuple[TokenId, ...] = ()
    """Ids that are written where the budget is used up: the message and the end mark."""
