"""The record of masked diffusion: passes that fill the hidden places of a text in any order."""

from __future__ import annotations

from dataclasses import dataclass

from engine.trace.value_types import Probability, TokenId


@dataclass(frozen=True, slots=True)
class PlaceGuess:
    """What the model would write at one hidden place."""

    position: int
    """Index among the new tokens, from 0."""
    token_id: TokenId
    p: Probability
    """The model's own probability of the token, before the temperature."""
    entropy: float
    """Of the model's distribution at this place, in nats."""
    written: bool
    """False if the place stays hidden; it is guessed again in the next pass."""


@dataclass(frozen=True, slots=True)
class TextMeasure:
    """A text after the prompt, with its cost and two figures of its quality."""

    token_ids: tuple[TokenId, ...]
    passes: int
    """Forward passes that wrote it."""
    perplexity: float
    """Under the main model, which reads from left to right."""
    distinct_2: Probability
    """Share of different pairs of neighbours; 1 if no pair comes twice."""


@dataclass(frozen=True, slots=True)
class FillReport:
    """The filled text next to one that the main model wrote from left to right."""

    filled: TextMeasure
    plain: TextMeasure


@dataclass(frozen=True, slots=True)
class FillDetail:
    """One pass of masked diffusion: a guess for every hidden place of a block, some of them written.

    The step emits what is whole from the prompt on: the text up to the first hidden place.
    """

    block: int
    """Number of the block, from 0."""
    length: int
    """Number of new tokens, hidden and given."""
    given: tuple[tuple[int, TokenId], ...]
    """(index, token id) of the new tokens that the request gives; the others are hidden at first."""
    guesses: tuple[PlaceGuess, ...]
    """By position."""
    report: FillReport | None = None
    """On the last step."""

    @property
    def written(self) -> tuple[PlaceGuess, ...]:
        """The guesses that were written."""
        return tuple(guess for guess in self.guesses if guess.written)
