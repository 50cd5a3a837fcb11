"""The views of a run on the page: those of its strategy, or those of a run that a server computed."""

from __future__ import annotations

from engine.strategies import STRATEGIES
from engine.trace.records import Trace
from engine.trace.served import SERVED_STRATEGY
from visualizers import strategy_visuals
from visualizers.page import order_views

_DEFAULT_VISUALS = ("candidates", "xray")
_SERVED_VISUALS = ("candidates", "formula", "chart")
_SERVER_QUESTIONS = ("why", "what_if", "looked")
"""Question tabs that the server answers."""
_MAPPED_STRATEGIES = ("sampling",)
"""Strategies whose runs have dial maps."""
_QUESTIONS = (*_SERVER_QUESTIONS, "draw", "xray", "formula")
"""All question tabs of a step, in order."""
MODEL_VIEWS = (*_SERVER_QUESTIONS, "dial_map", "family", "beside", "export")
"""Views that need the run's model on this machine."""


def trace_visuals(trace: Trace) -> tuple[str, ...]:
    """Return the names of a run's own views; its steps may be missing."""
    if trace.served is not None:
        return strategy_visuals(SERVED_STRATEGY, _SERVED_VISUALS)
    strategy = STRATEGIES.get(trace.strategy)
    return strategy_visuals(trace.strategy, strategy.visuals if strategy else _DEFAULT_VISUALS)


def trace_views(trace: Trace) -> list[str]:
    """Return all views of a run in page order."""
    if trace.served is not None:
        return served_views()
    views = stage_views(trace.strategy, trace_visuals(trace))
    return [name for name in views if not (trace.model.host and name in MODEL_VIEWS)]


def live_views() -> list[str]:
    """Return the views of a run on a server in the tab that asked for it, where it can be continued."""
    return [*served_views(), "family"]


def served_views() -> list[str]:
    """Return the views of a run that a server computed; other questions need its model on this machine."""
    return [*_add_since(order_views(strategy_visuals(SERVED_STRATEGY, _SERVED_VISUALS))), "beside"]


def stage_views(strategy: str, names: tuple[str, ...]) -> list[str]:
    """Return a strategy's views in order, plus the playground's own (questions, family, export)."""
    views = _add_since(order_views(names))
    own = [name for name in views if name not in _QUESTIONS]
    question_views = [name for name in _QUESTIONS if name in views or name in _SERVER_QUESTIONS]
    maps = ["dial_map"] if strategy in _MAPPED_STRATEGIES else []
    return [*own, *question_views, *maps, "family", "beside", "export"]


def _add_since(views: list[str]) -> list[str]:
    """Add the view of what has changed in the form since the run, below its status."""
    place = views.index("status") + 1
    return [*views[:place], "since", *views[place:]]
