"""The figures of a benchmark in the form that the page of results takes: a median with its spread, and its goal."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.about import Goal


@dataclass(frozen=True)
class Figure:
    """One figure, measured once or more often.

    Attributes:
        what: is measured, with its unit where it is no ratio.
        values: at least one.
        goal: of the median; None for what is told and not judged.
        digits: kept after the point.
        n: how many were measured, where ``values`` are least, median and most of them.
    """

    what: str
    values: Sequence[float]
    goal: Goal | None = None
    digits: int = 3
    n: int | None = None

    def __str__(self) -> str:
        told = self.told()
        goal = f", goal {told['goal']}: {'met' if told['met'] else 'NOT MET'}" if self.goal else ""
        return f"{self.what}: {told['median']:g} ({told['min']:g}–{told['max']:g}, n={told['n']}){goal}"

    def told(self) -> dict[str, Any]:
        """Return the figure as JSON."""
        median = statistics.median(self.values)
        said = {
            "what": self.what,
            "median": round(median, self.digits),
            "min": round(min(self.values), self.digits),
            "max": round(max(self.values), self.digits),
            "n": len(self.values) if self.n is None else self.n,
        }
        if self.goal is None:
            return said
        return {**said, "goal": str(self.goal), "met": self.goal.met(median)}


def spread_of(what: str, spread: Mapping[str, Any], goal: Goal | None = None) -> Figure:
    """Return the figure of a spread: median, min, max and n of some values."""
    values = [spread[name] for name in ("min", "median", "max")]
    return Figure(what, values, goal, n=spread["n"])


def tell(benchmark: str, figures: Sequence[Figure], **more: Any) -> None:
    """Print the last line of a benchmark, one JSON object.

    Args:
        benchmark: its name.
        figures: for the page of results.
        more: what else is kept.
    """
    told = [figure.told() for figure in figures]
    print(json.dumps({"benchmark": benchmark, "figures": told, **more}))
