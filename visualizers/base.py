"""What a visual is, and how its numbers are made: one fold over the steps of a run as they come."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engine.trace.details import BeamNode
from engine.trace.records import Step, Trace

Shown = dict[str, Any]
"""What a picture shows of a step and of the run up to it, as JSON values."""


class Fold(Protocol):
    """The numbers of one picture; the steps of a run go in one by one, in their order."""

    def add(self, step: Step) -> Shown | None:
        """Return what the picture shows of this step and of the run up to it, None for nothing.

        What the step itself says is not said again: a view has both.
        """


def every(step: Step) -> bool:
    """Every step has something for the picture."""
    del step
    return True


@dataclass(frozen=True)
class Visual:
    """One picture of a run."""

    name: str
    """Name of the component and of the strategy's entry in ``visuals``."""
    fold: Callable[[Trace], Fold] | None = None
    """Begins the numbers of a run, of which the trace has all but steps and outputs."""
    draws: Callable[[Step], bool] = every
    """Whether a step has something for the picture."""
    plotly: bool = False
    """Whether it is drawn with Plotly."""


class Summaries:
    """The numbers of several pictures of one run.

    Args:
        run: its trace; steps and outputs may be missing.
        names: of the pictures; those without a fold have none.
        visuals: all there are.
    """

    def __init__(self, run: Trace, names: Iterable[str], visuals: Mapping[str, Visual]) -> None:
        found = {name: visuals[name].fold for name in names if name in visuals}
        self.folds = {name: fold(run) for name, fold in found.items() if fold is not None}

    def add(self, step: Step) -> dict[str, Shown]:
        """Return picture -> what it shows of the next step."""
        shown = {name: fold.add(step) for name, fold in self.folds.items()}
        return {name: values for name, values in shown.items() if values is not None}


_SMALL = 0.01
_DIVERSITY = "HammingDiversity"
"""The one processor of a search whose work a node undoes: it says what it cost."""


def models_own(node: BeamNode, step: Step) -> float | None:
    """Return the model's own probability of a node's token, None where processors changed it.

    Args:
        node: of the step's pool.
        step: of a search; its processors are those of all beams.
    """
    if any(stage.name != _DIVERSITY for stage in step.stages):
        return None
    return min(1.0, probability(node.logprob + node.diversity_penalty))


def bits(nats: float) -> float:
    """Return nats in bits; a small number keeps its digits and never becomes 0."""
    value = nats / math.log(2)
    return round(value, 4) if abs(value) >= _SMALL else float(f"{value:.3g}")


def probability(logprob: float) -> float:
    """Return a probability from its logarithm."""
    return float(f"{math.exp(logprob):.8g}")
