"""A token that a filter removed, and what explains it."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from engine.messages import Message
from engine.number_text import format_value, quote_token, round_down_until, round_up_until
from engine.processors.scores import is_removed

if TYPE_CHECKING:
    import torch

MAX_NGRAM = 32
"""Largest n-grams whose repetition can be banned."""
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
    def text(self) -> list[int]:
        """Ids so far."""
        return self.ids[self.row].tolist()

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
        # A copy of the scores: a processor may write into them, and the next value is tried on the same ones.
        after = processor(self.ids, self.before.clone())
        return not is_removed(after, self.row, self.token_id)

    def with_value(self, **values: Any) -> Any:
        """Return a copy of the processor with other attribute values."""
        # A copy, because the processor of the run must keep its values.
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
    why: str, parameter: str, off: float | None, facts: Iterable[tuple[str, str, str]] = ()
) -> Removal:
    """Return a removal that only ends when the parameter is switched off, by the value ``off``."""
    survives = Message("with {parameter} off", parameter=parameter)
    return Removal(why, survives, {parameter: off}, None, tuple(facts))


def removal_at_least(
    case: RemovalCase,
    why: str,
    parameter: str,
    bound: float,
    replace: Callable[[float], Any],
    *,
    off: float | None,
    most: float = 1.0,
    facts: Iterable[tuple[str, str, str]] = (),
) -> Removal:
    """Return a removal that ends at the smallest value of a parameter that keeps the token.

    Args:
        case: the removed token.
        why: a complete sentence.
        parameter: the name of the parameter.
        bound: no smaller value can keep the token.
        replace: returns the processor with another value.
        off: the value that switches the parameter off.
        most: values stay below it.
        facts: as in ``Removal``.
    """
    # The bound comes from rounded sums, so every value is tried on the processor before it is named.
    value = round_up_until(bound, lambda v: case.is_kept_by(replace(v)), most)
    if value is None:
        return removal_until_off(why, parameter, off, facts)
    survives = Message("at {parameter} ≥ {value}", parameter=parameter, value=format_value(value))
    return Removal(why, survives, {parameter: value}, replace(value), tuple(facts))


def removal_at_most(
    case: RemovalCase,
    why: str,
    parameter: str,
    bound: float,
    replace: Callable[[float], Any],
    *,
    off: float | None,
    facts: Iterable[tuple[str, str, str]] = (),
) -> Removal:
    """Return a removal that ends at the largest value of a parameter that keeps the token.

    The arguments are those of ``removal_at_least``; no value above the bound can keep the token.
    """
    value = round_down_until(bound, lambda v: case.is_kept_by(replace(v)), 0.0)
    if value is None:
        return removal_until_off(why, parameter, off, facts)
    survives = Message("at {parameter} ≤ {value}", parameter=parameter, value=format_value(value))
    return Removal(why, survives, {parameter: value}, replace(value), tuple(facts))


def removal_by_id(case: RemovalCase, why: str, parameter: str) -> Removal:
    """Return a removal that ends when the token's id leaves the parameter's list."""
    rest = [i for i in getattr(case.config, parameter) if i != case.token_id]
    return Removal(
        why,
        Message("without its id in {parameter}", parameter=parameter),
        {parameter: rest or None},
        # The processor's attribute is named like the parameter.
        case.with_value(**{parameter: case.ids.new_tensor(rest)}) if rest else None,
    )


def ending_ngram(case: RemovalCase, size: int) -> list[int]:
    """Return the ids of the n-gram that the token would end; fewer where the text is shorter."""
    return [*case.text[len(case.text) - size + 1 :], case.token_id]


def removal_by_ngram(
    case: RemovalCase, why: str, parameter: str, resize: Callable[[int], Any]
) -> Removal:
    """Return a removal that ends at the smallest larger n for which no n-gram repeats.

    Args:
        case: the removed token.
        why: a complete sentence.
        parameter: the size of the n-grams; 0 is off.
        resize: returns the processor with another size.
    """
    # A longer n-gram has fewer repeats but no formula for the next size, so sizes are tried in turn.
    for size in range(case.processor.ngram_size + 1, MAX_NGRAM + 1):
        instead = resize(size)
        if case.is_kept_by(instead):
            survives = Message("at {parameter} ≥ {value}", parameter=parameter, value=size)
            return Removal(why, survives, {parameter: size}, instead)
    return removal_until_off(why, parameter, 0)


def token_name(case: RemovalCase) -> str:
    """Return the removed token in quotes."""
    return quote_token(case.piece(case.token_id))


def quote_tokens(case: RemovalCase, ids: Sequence[int]) -> str:
    """Return the text of some tokens in quotes."""
    return quote_token("".join(case.piece(token_id) for token_id in ids))
