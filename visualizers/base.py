"""What a visual is, and how its numbers are made: one fold over the steps of a run as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from engine.trace.records import Step, Trace

Shown = dict[str, Any]
"""What a picture shows of a step and of the run up to it, as JSON values."""


class Fold(Protocol):
    """The numbers of one picture; the steps of a run go in one by one, in their order."""

    def add(self, step: Step) -> Shown | None:
        """Return what the picture shows of this step and of the run up to it, None for nothing."""


@dataclass(frozen=True)
class Visual:
    """One picture of a run and the table that carries the same facts."""

    name: str
    """Name of the component and of the strategy's entry in ``visuals``."""
    title: str
    view: Callable[[Trace], dict[str, Any]]
    """Trace -> {"columns": [...], "rows": [...], "figure": Plotly JSON or absent}."""
    fold: Callable[[Trace], Fold] | None = None
    """Begins the numbers of a run, of which the trace has all but steps and outputs."""


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


def rows_of(
    trace: Trace, fold: Callable[[Trace], Fold], *, token: int | None = None
) -> list[list[Any]]:
    """Return the rows of a picture's table over a whole run.

    Args:
        trace: the run.
        fold: of the picture; what it shows of a step holds ``rows``.
        token: the column that holds a token's id, for which its piece is put, None for none.
    """
    begun = fold(trace)
    shown = [values for step in trace.steps if (values := begun.add(step)) is not None]
    rows = [list(row) for values in shown for row in values["rows"]]
    if token is not None:
        for row in rows:
            row[token] = trace.pieces[row[token]]
    return rows
