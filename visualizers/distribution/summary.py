"""What each step saw: candidates, processor stages, the draw, surprise over steps."""

from __future__ import annotations

import math
from typing import Any

from engine.trace.details import DrawDetail, WatermarkDetail
from engine.trace.records import Candidate, Step, Trace
from visualizers.base import Shown, rows_of

CANDIDATES = ["step", "rank", "token", "p raw", "p processed", "removed by", "emitted"]
STAGES = ["step", "processor", "kept", "kept mass", "entropy", "entropy, bits"]


class Candidates:
    """The candidates of a step: those of the last token it wrote.

    Shows ``rows`` of CANDIDATES, what the candidates leave of the probability (``rest_raw``,
    ``rest_processed``), and the ``entropy`` of the model's own distribution in bits.
    """

    def __init__(self, run: Trace) -> None:
        del run

    def add(self, step: Step) -> Shown:
        """Take a step."""
        rows = [
            [
                step.index,
                c.rank,
                c.token_id,
                _probability(c.raw_logprob),
                _probability(c.processed_logprob),
                c.removed_by or "",
                c.token_id in step.emit[-1:],
            ]
            for c in step.candidates
        ]
        return {
            "rows": rows,
            "rest_raw": max(0.0, 1 - math.fsum(row[3] for row in rows)),
            "rest_processed": max(0.0, 1 - math.fsum(row[4] for row in rows)),
            "entropy": _bits(step.entropy),
        }


class Stages:
    """What the processors of a step left: ``rows`` of STAGES; a step without any says so."""

    def __init__(self, run: Trace) -> None:
        self.vocab_size = run.model.vocab_size

    def add(self, step: Step) -> Shown:
        """Take a step."""
        whole = ("none", self.vocab_size, 1.0, step.entropy)
        stages = [(s.name, s.kept, s.kept_mass, s.entropy) for s in step.stages] or [whole]
        return {"rows": [[step.index, *stage, _bits(stage[-1])] for stage in stages]}


class Chart:
    """``surprise`` of the last token a step wrote and ``entropy`` of the model, both in bits.

    Surprise is that of the model's own distribution, whatever the processors made of it; None for
    a token that the model held to be impossible.
    """

    def __init__(self, run: Trace) -> None:
        del run

    def add(self, step: Step) -> Shown:
        """Take a step."""
        own = next((c for c in step.candidates if c.token_id in step.emit[-1:]), None)
        return {"surprise": _surprise(own), "entropy": _bits(step.entropy)}


def _surprise(own: Candidate | None) -> float | None:
    return None if own is None or own.raw_logprob == -math.inf else _bits(-own.raw_logprob)


def _bits(nats: float) -> float:
    return round(nats / math.log(2), 4)


def _probability(logprob: float) -> float:
    return float(f"{math.exp(logprob):.6g}")


def candidates(trace: Trace) -> dict[str, Any]:
    """Return one row per candidate of every step."""
    return {"columns": CANDIDATES, "rows": rows_of(trace, Candidates, token=2)}


def xray(trace: Trace) -> dict[str, Any]:
    """Return one row per processor of every step."""
    return {"columns": STAGES, "rows": rows_of(trace, Stages)}


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
    """Return surprise and entropy in bits over the steps."""
    begun, rows = Chart(trace), []
    for step in trace.steps:
        shown = begun.add(step)
        text = "".join(trace.pieces[i] for i in step.emit)
        rows.append([step.index, text, shown["surprise"], shown["entropy"]])
    return {"columns": ["step", "token", "surprise, bits", "entropy, bits"], "rows": rows}
