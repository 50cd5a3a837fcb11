"""The declaration of a view, and its summary: a fold over the steps of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engine.trace.details import BeamNode, Detail, ForwardDetail
from engine.trace.filling import FillDetail
from engine.trace.records import Step, Trace
from engine.trace.served import ServedDetail

StepSummary = dict[str, Any]
"""JSON values that a view shows of a step and of the run up to it."""


class Fold(Protocol):
    """The summary of one view; it takes the steps of a run one by one, in order."""

    def add(self, step: Step) -> StepSummary | None:
        """Return the values for this step and the run up to it, or None if there are none.

        Values of the step itself are not repeated: a view gets the step, too.
        """


def is_always_drawn(step: Step) -> bool:
    """Return True: the view draws every step."""
    del step
    return True


def has_detail(kind: type[Detail]) -> Callable[[Step], bool]:
    """Return a predicate: True for steps whose detail has this type."""
    return lambda step: isinstance(step.detail, kind)


def has_next_token(step: Step) -> bool:
    """Return True if the step is about one place, False for a pass of masked diffusion."""
    return not isinstance(step.detail, FillDetail)


def is_decided_here(step: Step) -> bool:
    """Return True if a built-in loop decided the step's token, False for a custom method."""
    return has_next_token(step) and not isinstance(step.detail, ForwardDetail)


def is_seen_whole(step: Step) -> bool:
    """Return True if a built-in loop decided the step's token, False for a custom method or a server."""
    return is_decided_here(step) and is_decided_by_program(step)


def is_decided_by_program(step: Step) -> bool:
    """Return True if this program decided the step's token, False if a server did."""
    return has_next_token(step) and not isinstance(step.detail, ServedDetail)


@dataclass(frozen=True)
class Visual:
    """The declaration of one view of a run."""

    name: str
    """Name of the component, also used in ``Strategy.visuals``."""
    fold: Callable[[Trace], Fold] | None = None
    """Trace without steps and outputs -> an empty summary; None for views without one."""
    draws: Callable[[Step], bool] = is_always_drawn
    """Step -> True if the view has something to draw for it."""
    plotly: bool = False
    """True if it is drawn with Plotly."""
    order: int = 60
    """Place among the views of a page; those of one strategy come before those of every step."""
    strategies: tuple[str, ...] = ()
    """The strategies whose runs it draws, which then need not name it; empty if they do."""

    def draws_some(self, trace: Trace) -> bool:
        """Return True if there is something to draw for a run."""
        if self.strategies and trace.strategy not in self.strategies:
            return False
        return any(self.draws(step) for step in trace.steps)


class Summaries:
    """The summaries of several views of one run.

    Args:
        run: the trace; steps and outputs may be missing.
        names: names of the views; unknown ones and those without a fold are skipped.
        visuals: the registry of all views.
    """

    def __init__(self, run: Trace, names: Iterable[str], visuals: Mapping[str, Visual]) -> None:
        found = {name: visuals[name].fold for name in names if name in visuals}
        self.folds = {name: fold(run) for name, fold in found.items() if fold is not None}

    def add(self, step: Step) -> dict[str, StepSummary]:
        """Return view -> values for the next step; views without values are left out."""
        shown = {name: fold.add(step) for name, fold in self.folds.items()}
        return {name: values for name, values in shown.items() if values is not None}


_MIN_ROUNDED_BITS = 0.01
_DIVERSITY_PROCESSOR = "HammingDiversity"
"""The one processor whose effect can be undone, as a node records its diversity penalty."""


def model_probability(node: BeamNode, step: Step) -> float | None:
    """Return the model's probability of a node's token; None if other processors changed it.

    Args:
        node: a node of the step's pool.
        step: a beam search step; its processors apply to all beams.
    """
    if any(stage.name != _DIVERSITY_PROCESSOR for stage in step.stages):
        return None
    return to_probability(node.logprob + node.diversity_penalty)


def nats_to_bits(nats: float) -> float:
    """Convert nats to bits: four decimals, but three significant digits below 0.01."""
    value = nats / math.log(2)
    return round(value, 4) if abs(value) >= _MIN_ROUNDED_BITS else float(f"{value:.3g}")


def to_probability(logprob: float) -> float:
    """Convert a log-probability to a probability with eight significant digits, at most 1.

    Beam search adds a bias to log-probabilities without normalising them again, so they may be above 0.
    """
    return float(f"{math.exp(min(0.0, logprob)):.8g}")
