"""Several runs side by side: where each two part, the table of figures, the curves in bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from engine.reading.divergence import same_ids, shared
from engine.reading.held import held_as
from engine.trace.records import Step, Trace
from visualizers.base import Shown, bits

COLUMNS = [
    "run",
    "strategy",
    "weights",
    "log-probability per token, nats",
    "perplexity",
    "rep-2",
    "rep-3",
    "rep-4",
    "distinct-1",
    "distinct-2",
    "tokens",
    "forward passes",
    "tokens per forward",
    "seconds",
    "ended by",
]


@dataclass
class _Text:
    """The first output of a run as far as it has come."""

    run: Trace
    pieces: dict[int, str]
    column: int
    ids: list[int] = field(default_factory=list)
    ended: bool = False

    def tokens(self, *, by_id: bool) -> list[int | str]:
        return list(self.ids) if by_id else [self.pieces.get(i, f"#{i}") for i in self.ids]


class Texts:
    """Follows runs of one prompt that come one after another, and where their texts part.

    Ids of one vocabulary are compared as ids, else the pieces of text they stand for.
    """

    def __init__(self) -> None:
        self.texts: list[_Text] = []

    def begin(self, run: Trace, column: int | None = None) -> None:
        """Take the beginning of the next run, of which the steps are missing.

        Args:
            run: its trace.
            column: its place among those compared, from 0; None is the next one.
        """
        place = len(self.texts) if column is None else column
        self.texts.append(_Text(run, dict(run.pieces), place))

    def add(self, step: Step, pieces: Mapping[int, str]) -> None:
        """Take a step of the latest run and the pieces that came with it."""
        text = self.texts[-1]
        text.pieces |= pieces
        if step.sequence == 0:
            text.ids[step.keep :] = step.emit

    def end(self) -> None:
        """The latest run has ended."""
        if self.texts:
            self.texts[-1].ended = True

    def parting(self) -> Shown | None:
        """Return how many tokens are ``common`` to all texts so far and ``at`` which they part.

        The latter is None while they do not; both are nothing for less than two texts. ``pairs``
        says the same of every two of them: of the columns ``a`` and ``b``, from 0.
        """
        there = [text for text in self.texts if text.ids]
        if len(there) < 2:
            return None
        pairs = [
            {"a": a.column, "b": b.column, **_together([a, b])} for a, b in combinations(there, 2)
        ]
        return {**_together(there), "pairs": pairs}


def _together(there: Sequence[_Text]) -> Shown:
    by_id = same_ids([text.run for text in there])
    texts = [text.tokens(by_id=by_id) for text in there]
    common, part = shared(texts, [text.ended for text in there])
    return {"common": common, "at": common if part else None}


@dataclass(frozen=True)
class Column:
    """One run and what the base model makes of its first output."""

    label: str
    title: str
    trace: Trace
    mean_logprob: float | None = None
    perplexity: float | None = None
    logprobs: tuple[float, ...] = ()
    """Per token of the base model, nats."""
    entropies: tuple[float, ...] = ()
    pieces: tuple[str, ...] = ()
    """What each scored token shows."""


def view(columns: Sequence[Column]) -> dict[str, Any]:
    """Return the table and the curves of a comparison.

    Surprise and entropy are the base model's, in bits, so that curves of different strategies
    mean the same.
    """
    curves = [
        {
            "name": f"{column.label} · {column.title}",
            "label": column.label,
            "pieces": list(column.pieces),
            "surprise": [max(0.0, bits(-v)) for v in column.logprobs],
            "entropy": [bits(v) for v in column.entropies],
        }
        for column in columns
    ]
    return {"columns": COLUMNS, "rows": [_row(c) for c in columns], "curves": curves}


def _weights(trace: Trace) -> str:
    draft = trace.assistant
    return held_as(trace.model) + (f"; draft {held_as(draft)}" if draft else "")


def _row(column: Column) -> list[Any]:
    trace = column.trace
    numbers = trace.metrics
    return [
        column.label,
        column.title,
        _weights(trace),
        column.mean_logprob,
        column.perplexity,
        *(numbers.get(f"rep_{n}") for n in (2, 3, 4)),
        *(numbers.get(f"distinct_{n}") for n in (1, 2)),
        len(trace.outputs[0].token_ids) if trace.outputs else 0,
        numbers.get("forward_passes"),
        numbers.get("tokens_per_forward"),
        trace.timing.total_s,
        trace.outputs[0].finish_reason if trace.outputs else "error",
    ]
