"""What each step saw, as tables: candidates, processor stages, the draw, surprise over steps."""

from __future__ import annotations

import math
from typing import Any

from engine.trace.details import DrawDetail, WatermarkDetail
from engine.trace.records import Step, Trace


def _probability(logprob: float) -> float:
    return round(math.exp(logprob), 6)


def candidates(trace: Trace) -> dict[str, Any]:
    """Return one row per candidate of every step: those of the last token it wrote."""
    rows = [
        [
            step.index,
            c.rank,
            trace.pieces[c.token_id],
            _probability(c.raw_logprob),
            _probability(c.processed_logprob),
            c.removed_by or "",
            c.token_id in step.emit[-1:],
        ]
        for step in trace.steps
        for c in step.candidates
    ]
    columns = ["step", "rank", "token", "p raw", "p processed", "removed by", "emitted"]
    return {"columns": columns, "rows": rows}


def xray(trace: Trace) -> dict[str, Any]:
    """Return one row per processor of every step; a step without any says so."""
    rows = []
    for step in trace.steps:
        rows += [[step.index, s.name, s.kept, s.kept_mass, s.entropy] for s in step.stages]
        if not step.stages:
            rows.append([step.index, "none", trace.model.vocab_size, 1.0, step.entropy])
    return {"columns": ["step", "processor", "kept", "kept mass", "entropy"], "rows": rows}


def draw(trace: Trace) -> dict[str, Any]:
    """Return one row per racer of every draw."""
    rows = [
        [step.index, place, trace.pieces[r.token_id], r.probability, r.noise, r.arrival]
        for step in trace.steps
        for place, r in enumerate(_race(step))
    ]
    columns = ["step", "place", "token", "probability", "noise", "arrival"]
    return {"columns": columns, "rows": rows}


def _race(step: Step) -> tuple[Any, ...]:
    detail = step.detail.draw if isinstance(step.detail, WatermarkDetail) else step.detail
    return detail.racers if isinstance(detail, DrawDetail) else ()


def chart(trace: Trace) -> dict[str, Any]:
    """Return surprise and entropy in bits over the steps, and the same as a Plotly figure."""
    rows = []
    for step in trace.steps:
        emitted = [c for c in step.candidates if c.token_id in step.emit[-1:]]
        finite = [c for c in emitted if c.raw_logprob > -math.inf]
        surprise = round(-finite[0].raw_logprob / math.log(2), 4) if finite else None
        text = "".join(trace.pieces[i] for i in step.emit)
        rows.append([step.index, text, surprise, round(step.entropy / math.log(2), 4)])
    x = [row[0] for row in rows]
    figure = {
        "data": [
            {"type": "scatter", "x": x, "y": [row[2] for row in rows], "name": "surprise"},
            {"type": "scatter", "x": x, "y": [row[3] for row in rows], "name": "entropy"},
        ],
        "layout": {"xaxis": {"title": {"text": "step"}}, "yaxis": {"title": {"text": "bits"}}},
    }
    columns = ["step", "token", "surprise, bits", "entropy, bits"]
    return {"columns": columns, "rows": rows, "figure": figure}
