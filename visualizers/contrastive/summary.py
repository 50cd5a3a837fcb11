"""Summary of contrastive search: the earlier token behind each penalty, and its effect."""

from __future__ import annotations

from engine.trace.details import ContrastiveDetail
from engine.trace.records import Step, Trace
from visualizers.base import StepSummary, Visual, has_detail


class ContrastiveSummary:
    """Resolves the most similar earlier token of each candidate.

    Values per step: ``like``, per candidate the id of the most similar earlier token, None for the
    start token; ``gain``, the chosen candidate's score minus that of the most probable one. Values
    of the run so far: ``steps``, and ``changed``, the steps that did not choose the most probable
    one.

    Recorded positions count prompt and output from 0. For encoder-decoder models they count the
    output alone, where -1 is the start token.
    """

    def __init__(self, run: Trace) -> None:
        self.before = [] if run.model.is_encoder_decoder else list(run.prompt_ids)
        self.texts: dict[int, list[int]] = {}
        self.steps = self.changed = 0

    def add(self, step: Step) -> StepSummary | None:
        """Add a step and return its values; None without a contrastive detail."""
        ids = self.texts.setdefault(step.sequence, list(self.before))
        ids += step.emit
        detail = step.detail
        if not isinstance(detail, ContrastiveDetail):
            return None
        like = [None if o.position < 0 else ids[o.position] for o in detail.options]
        self.steps += 1
        self.changed += detail.chosen != 0
        gain = detail.options[detail.chosen].score - detail.options[0].score
        return {"like": like, "gain": gain, "steps": self.steps, "changed": self.changed}


VISUALS = (
    Visual("contrastive_pairs", None, has_detail(ContrastiveDetail), order=19),
    Visual("contrastive", ContrastiveSummary, has_detail(ContrastiveDetail), order=20),
)
