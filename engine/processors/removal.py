"""A token that a filter removed, and what explains it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.messages import Message
from engine.number_text import format_value, quote_token
from engine.processors.scores import is_removed

if TYPE_CHECKING:
    import torch

NO_REPLACEMENT = object()
"""Marks a removal whose change cannot be tried on a processor."""


@dataclass(frozen=True)
class RemovalCase:
    """A processor that removed a token, with its input.

    Attributes:
        processor: a copy with the state it had before the pass.
        ids: (rows, length) ids so far.
        before: (rows, vocab) scores it received.
        row: the row in question.
        token_id: the removed token.
        new: number of new tokens before this one.
        config: the run's config.
        piece: returns the text of a token.
        prompt: ids of the prompt, for processors that read only those.
    """

    processor: Any
    ids: torch.Tensor
    before: torch.Tensor
    row: int
    token_id: int
    new: int
    config: Any
    piece: Callable[[int], str]
    prompt: Sequence[int] = ()

    @property
    def scores(self) -> torch.Tensor:
        """(vocab,) scores it received."""
        return self.before[self.row]

    @property
    def probs(self) -> torch.Tensor:
        """(vocab,) probabilities before the processor."""
        return self.scores.softmax(-1)

    @property
    def p(self) -> float:
        """The token's probability before the processor."""
        return float(self.probs[self.token_id])

    def is_kept_by(self, processor: Callable[..., torch.Tensor]) -> bool:
        """Return True if the token survives this processor instead."""
        after = processor(self.ids, self.before.clone())
        return not is_removed(after, self.row, self.token_id)

    def with_value(self, **values: Any) -> Any:
        """Return a copy of the processor with other attribute values."""
        other = copy.copy(self.processor)
        for name, value in values.items():
            setattr(other, name, value)
        return other


@dataclass(frozen=True)
class Removal:
    """Why a processor removed a token, and what would have let it through.

    Attributes:
        why: a complete sentence.
        survives: the condition of survival, as the end of a sentence; "" if there is none.
        changes: parameter -> value.
        instead: the processor with that value; None if it would be absent.
        facts: (name, value, meaning) of each number.
    """

    why: str
    survives: str = ""
    changes: dict[str, Any] = field(default_factory=dict)
    instead: Any = None
    facts: tuple[tuple[str, str, str], ...] = ()


def removal_until_off(
    case: RemovalCase,
    why: str,
    parameter: str,
    value: float | None,
    facts: Iterable[tuple[str, str, str]] = (),
) -> Removal:
    """Return a removal that only ends when the parameter is switched off."""
    shown = "off" if value is None else format_value(value)
    survives = (
        Message("with {parameter} off", parameter=parameter)
        if shown in ("off", "0", "1")
        else Message("with {parameter} = {value}", parameter=parameter, value=shown)
    )
    return Removal(why, survives, {parameter: value}, None, tuple(facts))


def token_name(case: RemovalCase) -> str:
    """Return the removed token in quotes."""
    return quote_token(case.piece(case.token_id))


def quote_tokens(case: RemovalCase, ids: Sequence[int]) -> str:
    """Return the text of some tokens in quotes."""
    return quote_token("".join(case.piece(token_id) for token_id in ids))
