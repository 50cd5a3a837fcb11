"""How a token was drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

from engine.trace.value_types import Probability, TokenId


@dataclass(frozen=True, slots=True)
class Racer:
    """A token in the exponential race that draws a sample."""

    token_id: TokenId
    probability: Probability
    noise: float
    """Exponential(1) noise e drawn for this token."""
    arrival: float
    """e / probability: the smallest arrival wins, exactly torch.multinomial's argmax of p / e."""


@dataclass(frozen=True, slots=True)
class DrawDetail:
    """How a token was drawn: the winner and the runners-up of the exponential race."""

    racers: tuple[Racer, ...]
    """By arrival; the first is the emitted token."""
