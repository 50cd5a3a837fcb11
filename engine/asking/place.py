"""The place that is asked about: a step of a run, with the logits it was decided from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from engine.asking.kept import KEPT_RUNS, KeptRun, Pass
from engine.asking.recomputed import run_of_trace
from engine.errors import EngineError, ParameterError
from engine.trace.details import DraftDetail
from engine.trace.records import Step, Trace


class ForgottenError(EngineError):
    """The run that is asked about is not remembered (any more); its trace can be asked about."""

    code = "forgotten"


@dataclass(frozen=True)
class AskedStep:
    """A step and what it was decided from.

    Attributes:
        run: the run, its config and its header.
        step: the step as it was recorded.
        passes: observations since the step before: one for loops that decide a token a pass, one
            a group in diverse beams, one a drafted token and one more in drafting.
        at: which of them decided the step's last token; the group's own in diverse beams is not
            known here, so there it is the last.
        row: row of the batch that the step wrote; 0 in searches.
    """

    run: KeptRun
    step: Step
    passes: tuple[Pass, ...]
    at: int
    row: int

    @property
    def logits(self) -> torch.Tensor | None:
        """(rows, vocab) float32 as the first processor saw them; None where nothing is known."""
        return self.passes[self.at].logits if self.passes else None

    @property
    def input_ids(self) -> torch.Tensor | None:
        """(rows, length) ids so far."""
        return self.passes[self.at].input_ids if self.passes else None

    @property
    def source(self) -> str:
        """One of KEPT, RECOMPUTED and RECORDED."""
        return self.run.source


def place_of(asked: str | Trace, step: Any) -> AskedStep:
    """Return a step of a run with the logits it was decided from.

    Args:
        asked: the id of a recent run, or a trace: its logits are computed anew where its model is in
            memory and its strategy allows it, else its recorded candidates are all that is known.
        step: index of the step, from 0.

    Raises:
        ParameterError: there is no such step.
        ForgottenError: there is no such recent run.
        EngineError: the trace is of a strategy that nobody knows, or the model is busy.
    """
    if isinstance(asked, Trace):
        return at(run_of_trace(asked, step), step)
    run = KEPT_RUNS.get(asked)
    if run is None or run.full:
        raise ForgottenError("The server no longer holds the logits of this run.")
    return at(run, step)


def at(run: KeptRun, step: Any) -> AskedStep:
    """Return a step of a run that was found already; see ``place_of``."""
    count = len(run.steps)
    if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < count:
        raise ParameterError("step", step, f"the run has steps 0 to {count - 1}")
    found = run.steps[step]
    passes = tuple(one for n in run.seen[step] if (one := run.pass_(n)) is not None)
    last = len(found.emit) - 1 if isinstance(found.detail, DraftDetail) else len(passes) - 1
    return AskedStep(run, found, passes, min(last, len(passes) - 1), run.row(found))
