"""Summary of a comparison of runs: divergence of each pair, table of figures, curves in bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from engine.messages import Message
from engine.statistics.text_divergence import common_prefix_length, has_comparable_ids
from engine.statistics.weights_summary import describe_weights
from engine.trace.records import Step, Trace
from visualizers.base import StepSummary, nats_to_bits

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
    "end",
]

FURTHER_COLUMNS = [
    "weights",
    "log-probability per token, nats",
    "rep-2",
    "rep-4",
    "distinct-2",
    "tokens per forward",
    "end",
]
"""Those that the table of measures does not show."""


@dataclass
class _RunText:
    """The first output of a run, while it grows."""

    run: Trace
    """The trace without steps; its pieces grow with the text."""
    column: int
    ids: list[int] = field(default_factory=list)
    ended: bool = False

    def tokens(self, *, by_id: bool) -> list[int | str]:
        return list(self.ids) if by_id else [self.run.pieces.get(i, f"#{i}") for i in self.ids]


class TextComparison:
    """Tracks consecutive runs of one prompt and finds where their texts diverge.

    Runs with the same vocabulary are compared by token ids, others by their pieces of text.
    """

    def __init__(self) -> None:
        self.texts: list[_RunText] = []

    def begin(self, run: Trace, column: int | None = None) -> None:
        """Start the next run.

        Args:
            run: the trace without steps.
            column: column index in the comparison, from 0; None for the next one.
        """
        place = len(self.texts) if column is None else column
        self.texts.append(_RunText(replace(run, pieces=dict(run.pieces)), place))

    def add(self, step: Step, pieces: Mapping[int, str]) -> None:
        """Add a step of the latest run, and its new pieces."""
        text = self.texts[-1]
        text.run.pieces.update(pieces)
        if step.sequence == 0:
            text.ids[step.keep :] = step.emit

    def end(self) -> None:
        """Mark the latest run as ended."""
        if self.texts:
            self.texts[-1].ended = True

    def find_divergence(self) -> StepSummary | None:
        """Return where the texts diverge; None for fewer than two texts.

        ``common`` is the number of leading tokens that all texts share. ``at`` is the index of the
        first difference, None so far without one. ``pairs`` has the same values for every two
        columns ``a`` and ``b``, from 0.
        """
        there = [text for text in self.texts if text.ids]
        if len(there) < 2:
            return None
        pairs = [
            {"a": a.column, "b": b.column, **_find_common_prefix([a, b])}
            for a, b in combinations(there, 2)
        ]
        return {**_find_common_prefix(there), "pairs": pairs}


def _find_common_prefix(there: Sequence[_RunText]) -> StepSummary:
    by_id = has_comparable_ids([text.run for text in there])
    texts = [text.tokens(by_id=by_id) for text in there]
    common, part = common_prefix_length(texts, [text.ended for text in there])
    return {"common": common, "at": common if part else None}


@dataclass(frozen=True)
class ComparedRun:
    """One run, and the scores of its first output under the base model."""

    label: str
    title: str
    trace: Trace
    mean_logprob: float | None = None
    perplexity: float | None = None
    logprobs: tuple[float, ...] = ()
    """Log-probability of each token under the base model, in nats."""
    entropies: tuple[float, ...] = ()
    pieces: tuple[str, ...] = ()
    """Piece of text of each scored token."""

    @property
    def seconds(self) -> float | None:
        """Time of the run; None if a server decoded it and did not say how long that took."""
        total = self.trace.timing.total_s
        return None if self.trace.served is not None and not total else total


def comparison_view(columns: Sequence[ComparedRun]) -> dict[str, Any]:
    """Return the table's rows, whose columns are ``COLUMNS``, and the curves of a comparison.

    Surprise and entropy are those of the base model, in bits. The strategies' own records describe
    reshaped distributions and cannot be compared.
    """
    curves = [
        {
            "name": f"{column.label} · {column.title}",
            "label": column.label,
            "pieces": list(column.pieces),
            "surprise": [max(0.0, nats_to_bits(-v)) for v in column.logprobs],
            "entropy": [nats_to_bits(v) for v in column.entropies],
        }
        for column in columns
    ]
    return {"rows": [_table_row(c) for c in columns], "curves": curves}


def _weights_label(trace: Trace) -> str:
    if trace.served is not None:
        return Message("on a server")
    draft = trace.assistant
    own = describe_weights(trace.model)
    return (
        Message("{held}; draft {draft}", held=own, draft=describe_weights(draft)) if draft else own
    )


def _table_row(column: ComparedRun) -> list[Any]:
    trace = column.trace
    numbers = trace.metrics
    return [
        column.label,
        column.title,
        _weights_label(trace),
        column.mean_logprob,
        column.perplexity,
        *(numbers.get(f"rep_{n}") for n in (2, 3, 4)),
        *(numbers.get(f"distinct_{n}") for n in (1, 2)),
        len(trace.outputs[0].token_ids) if trace.outputs else 0,
        numbers.get("forward_passes"),
        numbers.get("tokens_per_forward"),
        column.seconds,
        trace.outputs[0].finish_reason if trace.outputs else "error",
    ]
