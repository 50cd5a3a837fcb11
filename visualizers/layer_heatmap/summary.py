"""DoLa's layer map: what every layer would have said at every step, and which one was contrasted."""

from __future__ import annotations

import math
from typing import Any

from engine.trace.details import LayerDetail, LayerReading
from engine.trace.records import Step, Trace

VALUES = ("divergence", "entropy", "rank", "logprob")
PROJECTIONS = ("raw", "normed")
FLOOR = -20.0
"""Log-probabilities below this are drawn as this: a few extreme cells would hide all others."""
COLUMNS = [
    "step",
    "token",
    "layer",
    "role",
    "divergence",
    "entropy",
    "rank",
    "logprob",
    "top tokens",
    "divergence, normed",
    "entropy, normed",
    "rank, normed",
    "logprob, normed",
    "top tokens, normed",
]
CONTRAST_COLUMNS = [
    "step",
    "token",
    "premature layer",
    "tokens kept",
    "place",
    "before",
    "p",
    "after",
    "difference",
]


def view(trace: Trace) -> dict[str, Any]:
    """Return one row per layer and step, the map as Plotly JSON, and the contrast as a second table."""
    steps = trace.details(LayerDetail)
    rows = [_row(step, d, reading, trace) for step, d in steps for reading in d.layers]
    contrast = [row for step, d in steps for row in _contrast_rows(step, d, trace)]
    return {
        "columns": COLUMNS,
        "rows": rows,
        "figure": figure(trace),
        "contrast": {"columns": CONTRAST_COLUMNS, "rows": contrast},
    }


def role(detail: LayerDetail, layer: int) -> str:
    """Return what a layer is in a step: contrasted, candidate, final or nothing special."""
    if layer == detail.premature_layer:
        return "contrasted"
    if layer == len(detail.layers) - 1:
        return "final"
    return "candidate" if layer in detail.candidate_layers else ""


def reading_value(reading: LayerReading, value: str, projection: str) -> float | None:
    """Return one number of a layer under one of PROJECTIONS, None where there is none."""
    number = getattr(reading, value if projection == "raw" else f"normed_{value}")
    return None if number is None or not math.isfinite(number) else number


def drawn(value: str, number: float | None) -> float | None:
    """Return the number that the colour stands for: log10(rank + 1), floored log-probability."""
    if number is None:
        return None
    if value == "rank":
        return round(math.log10(number + 1), 4)
    return max(FLOOR, number) if value == "logprob" else number


def figure(trace: Trace, value: str = "divergence", projection: str = "raw") -> dict[str, Any]:
    """Return layers over steps as a heatmap, the contrasted layer of every step outlined.

    Args:
        trace: a run of DoLa.
        value: one of VALUES.
        projection: raw (the head applied as DoLa applies it) or normed (final norm first).
    """
    steps = trace.details(LayerDetail)
    layers = len(steps[0][1].layers) if steps else 0
    z = [
        [
            drawn(value, reading_value(detail.layers[layer], value, projection))
            for _, detail in steps
        ]
        for layer in range(layers)
    ]
    x = [step.index for step, _ in steps]
    heat = {"type": "heatmap", "x": x, "y": list(range(layers)), "z": z}
    xs, ys = outline(steps)
    line = {"type": "scatter", "mode": "lines", "x": xs, "y": ys, "name": "contrasted layer"}
    layout = {"xaxis": {"title": {"text": "step"}}, "yaxis": {"title": {"text": "layer"}}}
    return {"data": [heat, line], "layout": layout}


def outline(steps: list[tuple[Step, LayerDetail]]) -> tuple[list[float | None], list[float | None]]:
    """Return the closed path around every contrasted cell, None between two cells."""
    xs: list[float | None] = []
    ys: list[float | None] = []
    for step, detail in steps:
        x, y = step.index, detail.premature_layer
        xs += [x - 0.5, x + 0.5, x + 0.5, x - 0.5, x - 0.5, None]
        ys += [y - 0.5, y - 0.5, y + 0.5, y + 0.5, y - 0.5, None]
    return xs, ys


def _row(step: Step, detail: LayerDetail, reading: LayerReading, trace: Trace) -> list[Any]:
    row: list[Any] = [
        step.index,
        _text(step, trace),
        reading.layer,
        role(detail, reading.layer),
    ]
    for projection, top in (("raw", reading.top), ("normed", reading.normed_top)):
        row += [reading_value(reading, value, projection) for value in VALUES]
        row.append(", ".join(f"{trace.pieces[i]!r} {p:.3f}" for i, p in top))
    return row


def _contrast_rows(step: Step, detail: LayerDetail, trace: Trace) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for place, (token, p) in enumerate(detail.final_top):
        after = detail.contrast_top[place] if place < len(detail.contrast_top) else None
        rows.append(
            [
                step.index,
                _text(step, trace),
                detail.premature_layer,
                detail.kept,
                place + 1,
                trace.pieces[token],
                p,
                trace.pieces[after[0]] if after else None,
                after[1] if after else None,
            ]
        )
    return rows


def _text(step: Step, trace: Trace) -> str:
    return "".join(trace.pieces[i] for i in step.emit)
