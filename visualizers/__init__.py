"""Views of a trace: pure functions of plain data, without a model or a web framework.

Every view has a folder: ``summary.py`` declares it as a ``Visual`` and computes its numbers step by
step during a run; ``view.mjs`` and ``view.css`` draw them. ``shared`` holds common helpers, ``stage``
the frame around the views.
Outside this package they import only ``engine.trace`` and ``engine.statistics``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path

from engine.trace.records import Trace
from visualizers.base import StepSummary, Summaries, Visual


def _declared_visuals() -> Iterator[Visual]:
    for path in sorted(Path(__file__).parent.glob("*/summary.py")):
        yield from getattr(import_module(f"{__name__}.{path.parent.name}.summary"), "VISUALS", ())


COMMON_VISUALS = ("text", "sentence")
"""Views that every run has, whatever its strategy."""
VISUALS = {v.name: v for v in sorted(_declared_visuals(), key=lambda visual: visual.order)}
"""Name -> view, in page order."""


def strategy_visuals(strategy: str, named: Iterable[str]) -> tuple[str, ...]:
    """Return the views of a strategy's runs: those that it names, and those that name it."""
    named = tuple(named)
    more = (v.name for v in VISUALS.values() if strategy in v.strategies and v.name not in named)
    return (*named, *more)


def start_summaries(run: Trace, names: Iterable[str]) -> Summaries:
    """Return the empty summaries of a run's views; see ``Summaries``."""
    return Summaries(run, (*COMMON_VISUALS, *names), VISUALS)


def summarize_trace(trace: Trace, names: Iterable[str]) -> list[dict[str, StepSummary]]:
    """Return the summaries of a complete run: one mapping view -> values per step."""
    begun = start_summaries(trace, names)
    return [begun.add(step) for step in trace.steps]


def list_visuals(trace: Trace) -> tuple[str, ...]:
    """Return the names of the views that have something to draw for a run, in page order."""
    own = (name for name, visual in VISUALS.items() if visual.draws_some(trace))
    return tuple(name for name in own if name not in COMMON_VISUALS)
