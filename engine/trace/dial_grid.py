"""The record of a map of two dials: every text that one sampled run writes as two settings move."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.trace.records import ModelInfo
from engine.trace.value_types import LogProb, Seconds, TokenId

DIAL_GRID_SCHEMA = "decoding-dial-grid/1"


@dataclass(frozen=True)
class GridText:
    """A text of a map of two dials."""

    token_ids: tuple[TokenId, ...]
    logprobs: tuple[LogProb, ...]
    """Log-probability of each token in the model, in nats, before any filter."""
    text: str
    end: str
    """One of ``engine.trace.dial_map.ENDS``."""


@dataclass(frozen=True)
class GridCell:
    """A stretch of the first dial, at one value of the second, on which the text does not change."""

    row: int
    """Index of the second dial's value."""
    low: float
    high: float
    text: int
    """Index of the text."""
    sure: bool
    """False if the stretch is too narrow: a real run may then write the text of a neighbour."""


@dataclass(frozen=True)
class DialGrid:
    """All texts of a run over two dials: exact along the first one, at chosen values of the second."""

    dial: str
    """Name of the first parameter."""
    low: float
    high: float
    value: float
    """The run's own value."""
    second: str
    """Name of the second parameter."""
    second_value: float | None
    """The run's own value of it; None if the run has this filter off."""
    values: tuple[float, ...]
    """Values of the second parameter, ascending; each has a row of cells."""
    stops: tuple[float, ...] | None
    """The only values of the first parameter; None if every value of the range is covered."""
    cells: tuple[GridCell, ...]
    """By row, then in ascending order of the first parameter."""
    texts: tuple[GridText, ...]
    """In the order in which the cells first have them."""
    pieces: dict[int, str]
    """Token id -> its piece of text."""
    model: ModelInfo
    seed: int
    config: dict[str, Any]
    prompt_ids: tuple[TokenId, ...]
    steps: int
    """Number of tokens mapped so far."""
    complete: bool
    """False while the map grows."""
    forward_rows: int
    """Rows of all forward passes, those of steps decided again included."""
    decisions: int
    """Decisions of a token at one pair of values."""
    decided_alone: int
    """Steps of a text that were decided by passes alone, as a batched pass was too imprecise."""
    seconds: Seconds
    """Seconds of computing, without waiting times."""
    notes: tuple[str, ...] = field(default=())

    def cell_at(self, value: float, second_value: float) -> GridCell:
        """Return the cell of two values, or the nearest one.

        Args:
            value: of the first parameter, from ``low`` to ``high``.
            second_value: of the second parameter; the nearest row is taken.
        """
        row = min(range(len(self.values)), key=lambda i: abs(self.values[i] - second_value))
        own = (cell for cell in self.cells if cell.row == row)
        return min(own, key=lambda one: max(one.low - value, value - one.high, 0.0))

    def text_at(self, value: float, second_value: float) -> GridText:
        """Return the text of two values; see ``cell_at``."""
        return self.texts[self.cell_at(value, second_value).text]
