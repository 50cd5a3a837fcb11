"""The beam tree as a table: every candidate, what became of it and why."""

from __future__ import annotations

import math
from typing import Any

from engine.reading.rescoring import rescore
from engine.trace.details import BeamDetail
from engine.trace.records import Trace

COLUMNS = [
    "step",
    "node",
    "parent",
    "token",
    "p",
    "log p",
    "sum",
    "score",
    "rank",
    "margin",
    "group",
    "diversity penalty",
    "fate",
    "reason",
]


def view(trace: Trace) -> dict[str, Any]:
    """Return one row per candidate, and the search's end: winner, reason, the greedy path."""
    rows = [
        [
            step.index,
            n.node_id,
            n.parent_id,
            trace.pieces[n.token_id],
            math.exp(n.logprob),
            n.logprob,
            n.sum_logprobs,
            n.score,
            n.rank,
            n.margin,
            n.group,
            n.diversity_penalty,
            n.fate,
            n.reason,
        ]
        for step in trace.steps
        if isinstance(step.detail, BeamDetail)
        for n in step.detail.pool
    ]
    return {"columns": COLUMNS, "rows": rows, "summary": summary(trace)}


def summary(trace: Trace) -> dict[str, Any]:
    """Return how the search ended."""
    last = trace.steps[-1].detail if trace.steps else None
    if not isinstance(last, BeamDetail):
        return {}
    return {
        "winner": last.winner_node_id,
        "stop_reason": last.stop_reason,
        "finished": [h.node_id for h in last.heap],
        "left_greedy_at": last.greedy.left_at if last.greedy else None,
        "greedy_sum": last.greedy.sum_logprobs if last.greedy else None,
    }


def rescored(trace: Trace) -> dict[str, Any]:
    """Return the recorded hypotheses ranked with the run's own length penalty."""
    if not any(isinstance(step.detail, BeamDetail) for step in trace.steps):
        return {"columns": ["node", "sum", "length", "score"], "rows": []}
    result = rescore(trace, trace.config["length_penalty"])
    rows = [[line.node_id, line.sum_logprobs, line.length, line.score] for line in result.ranking]
    return {"columns": ["node", "sum", "length", "score"], "rows": rows}
