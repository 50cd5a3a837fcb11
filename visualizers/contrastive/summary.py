"""Contrastive search: which earlier token made every candidate dear, and how often that decided."""

from __future__ import annotations

from engine.trace.details import ContrastiveDetail
from engine.trace.records import Step, Trace
from visualizers.base import Shown


class Looks:
    """Follows what the candidates look back to.

    Shows of a step: ``like``, per candidate the id of the token that it resembles most, None at
    the start of the text; ``gain``, by how much the chosen candidate's score is above that of the
    most probable; and of the run so far ``steps`` and ``changed``, how many of them chose another
    than that.

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
        like = [None if o.position < 0 else ids[o.position] for o in detail.options]
        ids += step.emit
        self.steps += 1
        self.changed += detail.chosen != 0
        gain = detail.options[detail.chosen].score - detail.options[0].score
        return {"like": like, "gain": gain, "steps": self.steps, "changed": self.changed}
