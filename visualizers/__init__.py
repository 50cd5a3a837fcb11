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
from visualizers.base import StepSummary, Summaries, Visual
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


def _has_detail(kind: type[Detail]) -> Callable[[Step], bool]:
    """Return a predicate: True for steps whose detail has this type."""
    return lambda step: isinstance(step.detail, kind)


def _is_decided_here(step: Step) -> bool:
    """Return True if a built-in loop decided the step, False for a custom method."""
    return not isinstance(step.detail, ForwardDetail)


COMMON_VISUALS = ("text",)
"""Views that every run has, whatever its strategy."""
VISUALS: dict[str, Visual] = {
    visual.name: visual
    for visual in (
        Visual("text", text.TextSummary),
        Visual("beam_tree", beams.BeamTreeSummary, _has_detail(BeamDetail)),
        Visual("beam_rescore", None, _has_detail(BeamDetail)),
        Visual("contrastive", contrast.ContrastiveSummary, _has_detail(ContrastiveDetail)),
        Visual("layer_heatmap", layers.LayerSummary, _has_detail(LayerDetail), plotly=True),
        Visual("watermark", marks.WatermarkSummary, _has_detail(WatermarkDetail)),
        Visual("draft_timeline", drafts.DraftSummary, _has_detail(DraftDetail)),
        Visual("forward_timeline", passes.ForwardSummary, _has_detail(ForwardDetail)),
        Visual("candidates", step.CandidateSummary),
        Visual("xray", step.StageSummary),
        Visual("formula", formulas.FormulaSummary, _is_decided_here),
        Visual("draw", race.DrawSummary, _is_decided_here),
        Visual("chart", step.ChartSummary, step.has_single_token_candidates),
    )
}


def start_summaries(run: Trace, names: Iterable[str]) -> Summaries:
    """Return the empty summaries of a run's views; see ``Summaries``."""
    return Summaries(run, (*COMMON_VISUALS, *names), VISUALS)


def summarize_trace(trace: Trace, names: Iterable[str]) -> list[dict[str, StepSummary]]:
    """Return the summaries of a complete run: one mapping view -> values per step."""
    begun = start_summaries(trace, names)
    return [begun.add(step) for step in trace.steps]


def list_visuals(trace: Trace) -> tuple[str, ...]:
    """Return the names of the views that have something to draw for a run, in page order."""
    own = [v for v in VISUALS.values() if any(v.draws(step) for step in trace.steps)]
    return tuple(visual.name for visual in own if visual.name not in COMMON_VISUALS)
