"""Several runs side by side: the table of honest figures and the curves under one base model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.trace.records import Trace

COLUMNS = [
    "run",
    "strategy",
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
_DASHES = ("solid", "dash", "dot", "dashdot")
_COLOURS = ("#0b62c4", "#b3361b", "#00694f", "#6b3fa0")


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
    """Return the table and the figure of a comparison."""
    return {"columns": COLUMNS, "rows": [_row(c) for c in columns], "figure": figure(columns)}


def _row(column: Column) -> list[Any]:
    trace = column.trace
    numbers = trace.metrics
    return [
        column.label,
        column.title,
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


def figure(columns: Sequence[Column]) -> dict[str, Any]:
    """Return surprise (upper part) and entropy (lower part) over the new tokens, in bits.

    Both are the base model's, so that curves of different strategies mean the same.
    """
    data = []
    for i, column in enumerate(columns):
        line = {"color": _COLOURS[i % 4], "dash": _DASHES[i % 4], "width": 2}
        places = list(range(1, len(column.logprobs) + 1))
        common = {
            "type": "scatter",
            "mode": "lines",
            "x": places,
            "line": line,
            "legendgroup": column.label,
        }
        name = f"{column.label} · {column.title}"
        surprise = [round(max(0.0, -v) / math.log(2), 4) for v in column.logprobs]
        entropy = [round(v / math.log(2), 4) for v in column.entropies]
        hover = f"{column.label} %{{text}} %{{y:.2f}} bits<extra></extra>"
        upper = {"y": surprise, "name": name, "text": list(column.pieces), "hovertemplate": hover}
        lower = {"y": entropy, "name": name, "showlegend": False, "yaxis": "y2"}
        lower["hovertemplate"] = f"{column.label} %{{y:.2f}} bits<extra></extra>"
        data += [common | upper, common | lower]
    layout = {
        "xaxis": {"title": {"text": "new token"}, "anchor": "y2"},
        "yaxis": {"title": {"text": "surprise, bits"}, "domain": [0.54, 1], "rangemode": "tozero"},
        "yaxis2": {
            "title": {"text": "entropy, bits"},
            "domain": [0, 0.46],
            "rangemode": "tozero",
        },
    }
    return {"data": data, "layout": layout}
