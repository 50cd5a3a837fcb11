"""A reference to a step of a run, with the logits that decided it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.inspection.logits_cache import CachedPass, CachedRun
from engine.model_code import ModelWork
from engine.strategies import STRATEGIES
from engine.trace.details import DraftDetail
from engine.trace.records import Step, Trace, check_step_index


def name_model(run: CachedRun | Trace) -> ModelWork:
    """Return a context that names a run's model and strategy in the errors of the model's code."""
    trace = run if isinstance(run, Trace) else run.header
    known = STRATEGIES.get(trace.strategy)
    return ModelWork(trace.model.id, known.title if known else trace.strategy)


@dataclass(frozen=True)
class StepRef:
    """A step and the passes that decided it.

    Attributes:
        run: the run with its config and header.
        step: the recorded step.
        passes: observations since the previous step: one if a pass decides one token, one per group
            in diverse beam search, and one per drafted token plus one in drafting.
        at: index of the pass that decided the step's last token. In diverse beam search the
            deciding group is unknown, so it is the last pass.
        row: batch row of the step; 0 in searches.
    """

    run: CachedRun
    step: Step
    passes: tuple[CachedPass, ...]
    at: int
    row: int

    @property
    def logits(self) -> torch.Tensor | None:
        """(rows, vocab) float32 that the first processor received; None if unknown."""
        return self.passes[self.at].logits if self.passes else None

    @property
    def input_ids(self) -> torch.Tensor | None:
        """(rows, length) ids so far; None if unknown."""
        return self.passes[self.at].input_ids if self.passes else None

    @property
    def source(self) -> str:
        """One of CACHED, RECOMPUTED and RECORDED."""
        return self.run.source


def step_ref_in_run(run: CachedRun, step: object) -> StepRef:
    """Return a step of a cached run.

    Raises:
        ParameterError: the step does not exist.
    """
    index = check_step_index(run.steps, step)
    found = run.steps[index]
    passes = tuple(one for n in run.passes_of_step[index] if (one := run.get_pass(n)) is not None)
    last = len(found.emit) - 1 if isinstance(found.detail, DraftDetail) else len(passes) - 1
    return StepRef(run, found, passes, min(last, len(passes) - 1), run.batch_row(found))
