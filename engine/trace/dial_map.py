"""The record of a dial map: every text that one sampled run writes as one of its settings moves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.trace.records import ModelInfo
from engine.trace.value_types import LogProb, Seconds, TokenId

DIAL_MAP_SCHEMA = "decoding-dial-map/1"
ENDS = ("eos", "length", "cut", "not_followed", "")
"""How a text of a map ends: with an end token, at max_new_tokens, where the map ends, where the map had
too many texts to follow it further, or, while the map grows, not yet."""


@dataclass(frozen=True)
class DialInterval:
    """A stretch of a dial on which the text does not change."""

    low: float
    """Lowest value of the dial that writes the text; a float32 unless the dial has stops."""
    high: float
    """Highest value of the dial that writes the text."""
    token_ids: tuple[TokenId, ...]
    ranks: tuple[int, ...]
    """Rank of each token in the model's own distribution, from 1."""
    logprobs: tuple[LogProb, ...]
    """Log-probability of each token in the model, in nats, before any filter."""
    text: str
    end: str
    """One of ENDS."""
    first_change: int | None
    """Index of the first token that differs from the interval before; None for the first interval."""
    sure: bool
    """False if the stretch is too narrow: a real run may then write the text of a neighbour."""


@dataclass(frozen=True)
class DialMap:
    """All texts of a run along one dial, in ascending order of its values."""

    dial: str
    """Name of the parameter."""
    low: float
    high: float
    value: float
    """The run's own value."""
    stops: tuple[float, ...] | None
    """The only values that were decided; None if every value of the range is covered."""
    proven: bool
    """Whether each interval is proven from its ends; otherwise texts between two stops are unknown."""
    reason: str
    """One sentence on why nothing is proven; empty if it is."""
    intervals: tuple[DialInterval, ...]
    pieces: dict[int, str]
    """Token id -> its piece of text."""
    model: ModelInfo
    seed: int
    config: dict[str, Any]
    """The run's parameters; that of the dial has the run's own value."""
    prompt_ids: tuple[TokenId, ...]
    steps: int
    """Number of tokens mapped so far."""
    complete: bool
    """False while the map grows."""
    forward_rows: int
    """Rows of all forward passes, those of steps decided again included."""
    decisions: int
    """Decisions of a token at one value of the dial."""
    decided_alone: int
    """Steps of a text that were decided by passes alone, as a batched pass was too imprecise."""
    seconds: Seconds
    """Seconds of computing, without waiting times."""
    notes: tuple[str, ...] = field(default=())

    def interval_at(self, value: float) -> DialInterval:
        """Return the interval of a value, or the nearest one between two stops.

        Args:
            value: a value from ``low`` to ``high``.
        """
        return min(self.intervals, key=lambda one: max(one.low - value, value - one.high, 0.0))
