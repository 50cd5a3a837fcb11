"""Views of a trace: pure functions of plain data, without a model or a web framework.

Every view has a folder: ``summary.py`` computes its numbers step by step during a run; ``view.mjs``
and ``view.css`` draw them. ``shared`` holds common helpers, ``stage`` the frame around the views.
Outside this package they import only ``engine.trace`` and ``engine.statistics``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engine.trace.details import (
    BeamDetail,
    ContrastiveDetail,
    Detail,
    DraftDetail,
    ForwardDetail,
    LayerDetail,
    WatermarkDetail,
)
from engine.trace.records import Step, Trace
from visualizers.base import Shown, Summaries, Visual
from visualizers.beam_tree import summary as beams
from visualizers.contrastive import summary as contrast
from visualizers.distribution import race
from visualizers.distribution import summary as step
from visualizers.draft_timeline import summary as drafts
from visualizers.formula import summary as formulas
from visualizers.forward_timeline import summary as passes
from visualizers.layer_heatmap import summary as layers
from visualizers.text import summary as text
from visualizers.watermark import summary as marks


def _of(kind: type[Detail]) -> Callable[[Step], bool]:
    """Return a predicate: True for steps whose detail has this type."""
    return lambda step: isinstance(step.detail, kind)


def _is_decided_here(step: Step) -> bool:
    """Return True if a built-in loop decided the step, False for a custom method."""
    return not isinstance(step.detail, ForwardDetail)


COMMON = ("text",)
"""Views that every run has, whatever its strategy."""
VISUALS: dict[str, Visual] = {
    visual.name: visual
    for visual in (
        Visual("text", text.Written),
        Visual("beam_tree", beams.Search, _of(BeamDetail)),
        Visual("beam_rescore", None, _of(BeamDetail)),
        Visual("contrastive", contrast.Looks, _of(ContrastiveDetail)),
        Visual("layer_heatmap", layers.Readings, _of(LayerDetail), plotly=True),
        Visual("watermark", marks.Marks, _of(WatermarkDetail)),
        Visual("draft_timeline", drafts.Rounds, _of(DraftDetail)),
        Visual("forward_timeline", passes.Passes, _of(ForwardDetail)),
        Visual("candidates", step.Candidates),
        Visual("xray", step.Stages),
        Visual("formula", formulas.Formulas, _is_decided_here),
        Visual("draw", race.Draws, _is_decided_here),
        Visual("chart", step.Chart, step.is_one_by_one),
    )
}


def summaries(run: Trace, names: Iterable[str]) -> Summaries:
    """Return the empty summaries of a run's views; see ``Summaries``."""
    return Summaries(run, (*COMMON, *names), VISUALS)


def shown_of(trace: Trace, names: Iterable[str]) -> list[dict[str, Shown]]:
    """Return the summaries of a complete run: one mapping view -> values per step."""
    begun = summaries(trace, names)
    return [begun.add(step) for step in trace.steps]


def pictures_of(trace: Trace) -> tuple[str, ...]:
    """Return the names of the views that have something to draw for a run, in page order."""
    own = [v for v in VISUALS.values() if any(v.draws(step) for step in trace.steps)]
    return tuple(visual.name for visual in own if visual.name not in COMMON)
