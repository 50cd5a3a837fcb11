"""Contrastive search: what every candidate was worth and which earlier token made it dear."""

from __future__ import annotations

from typing import Any

from engine.trace.details import ContrastiveDetail
from engine.trace.records import Step, Trace
from visualizers.base import Shown, rows_of

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
START = "start"
"""What stands at position -1, the start token of an encoder-decoder model."""


class Looks:
    """Follows what the candidates look back to.

    Shows of a step: ``rows`` of COLUMNS, where ``similar to`` is an id, None at the start of the
    text; ``gain``, by how much the chosen candidate's score is above that of the most probable;
    and of the run so far ``steps`` and ``changed``, how many of them chose another than that.

    Positions count prompt and output from 0; for encoder-decoder models the output alone, where -1
    is the start token.
    """

    def __init__(self, run: Trace) -> None:
        self.before = [] if run.model.is_encoder_decoder else list(run.prompt_ids)
        self.texts: dict[int, list[int]] = {}
        self.steps = self.changed = 0

    def add(self, step: Step) -> Shown | None:
        """Take a step."""
        detail = step.detail
        if not isinstance(detail, ContrastiveDetail):
            return None
        ids = self.texts.setdefault(step.sequence, list(self.before))
        rows = [
            [
                step.index,
                o.token_id,
                o.probability,
                o.confidence,
                o.max_cosine,
                o.degeneration_penalty,
                o.score,
                None if o.position < 0 else ids[o.position],
                o.position,
                place == detail.chosen,
            ]
            for place, o in enumerate(detail.options)
        ]
        ids += step.emit
        self.steps += 1
        self.changed += detail.chosen != 0
        gain = detail.options[detail.chosen].score - detail.options[0].score
        return {"rows": rows, "gain": gain, "steps": self.steps, "changed": self.changed}


def view(trace: Trace) -> dict[str, Any]:
    """Return one row per candidate of every step."""
    rows = rows_of(trace, Looks, token=1)
    for row in rows:
        row[7] = START if row[7] is None else trace.pieces[row[7]]
    return {"columns": COLUMNS, "rows": rows}
