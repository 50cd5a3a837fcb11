"""Contrastive search: what every candidate was worth and which earlier token made it dear."""

from __future__ import annotations

from typing import Any

from engine.trace.details import ContrastiveDetail
from engine.trace.records import Step, Trace

COLUMNS = [
    "step",
    "token",
    "p",
    "confidence",
    "max cosine",
    "penalty",
    "score",
    "similar to",
    "position",
    "chosen",
]


def view(trace: Trace) -> dict[str, Any]:
    """Return one row per candidate of every step, confidence and penalty as a figure, a summary.

    ``position`` counts prompt and output from 0; for encoder-decoder models the output alone,
    where -1 is the start token.
    """
    steps = trace.details(ContrastiveDetail)
    ids = context_ids(trace)
    rows = [row for step, detail in steps for row in _rows(step, detail, ids, trace)]
    return {
        "columns": COLUMNS,
        "rows": rows,
        "figure": figure(steps, trace),
        "summary": summary(trace),
    }


def context_ids(trace: Trace) -> list[int]:
    """Return the ids that ``position`` counts: prompt and output, or the output alone."""
    prompt = [] if trace.model.is_encoder_decoder else list(trace.prompt_ids)
    return prompt + [token for step in trace.steps_of(0) for token in step.emit]


def _rows(
    step: Step, detail: ContrastiveDetail, ids: list[int], trace: Trace
) -> list[list[Any]]:
    rows: list[list[Any]] = []
    for place, o in enumerate(detail.options):
        earlier = trace.pieces.get(ids[o.position], "") if o.position >= 0 else "start"
        rows.append(
            [
                step.index,
                trace.pieces[o.token_id],
                o.probability,
                o.confidence,
                o.max_cosine,
                o.degeneration_penalty,
                o.score,
                earlier,
                o.position,
                place == detail.chosen,
            ]
        )
    return rows


def figure(steps: list[tuple[Step, ContrastiveDetail]], trace: Trace) -> dict[str, Any]:
    """Return confidence, penalty and score of every chosen token as Plotly JSON."""
    chosen = [detail.options[detail.chosen] for _, detail in steps]
    x = [step.index for step, _ in steps]
    text = [trace.pieces[o.token_id] for o in chosen]
    data: list[dict[str, Any]] = [
        {
            "type": "bar",
            "x": x,
            "y": [o.confidence for o in chosen],
            "text": text,
            "name": "confidence",
        },
        {"type": "bar", "x": x, "y": [-o.degeneration_penalty for o in chosen], "name": "penalty"},
        {"type": "scatter", "x": x, "y": [o.score for o in chosen], "name": "score"},
    ]
    layout = {
        "barmode": "relative",
        "xaxis": {"title": {"text": "step"}},
        "yaxis": {"title": {"text": "score"}},
    }
    return {"data": data, "layout": layout}


def summary(trace: Trace) -> dict[str, Any]:
    """Return the steps where similarity changed the choice, and how much the text repeats."""
    steps = trace.details(ContrastiveDetail)
    return {
        "steps": len(steps),
        "changed": [step.index for step, detail in steps if detail.chosen != 0],
        "repeated_3_grams": trace.metrics.get("rep_3"),
    }
