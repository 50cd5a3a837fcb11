"""Pictures of a trace: pure functions of plain data, no model and no web framework.

Every visual has a folder: ``summary.py`` makes its numbers, step by step as a run goes on;
``view.mjs`` and ``view.css`` draw them. ``shared`` holds what the views have in common, ``stage``
what they stand on; none of them imports anything from outside this package but records and what
is read off them.
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
    """Return whether a step was decided in one way."""
    return lambda step: isinstance(step.detail, kind)


def _is_decided_here(step: Step) -> bool:
    """Return whether the playground's own loop decided a step, and not a method that it saw from outside."""
    return not isinstance(step.detail, ForwardDetail)


COMMON = ("text",)
"""What every run shows, whatever its strategy."""
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
    """Begin the numbers of a run's pictures; see ``Summaries``."""
    return Summaries(run, (*COMMON, *names), VISUALS)


def shown_of(trace: Trace, names: Iterable[str]) -> list[dict[str, Shown]]:
    """Return what the pictures of a whole run show, by step."""
    begun = summaries(trace, names)
    return [begun.add(step) for step in trace.steps]


def pictures_of(trace: Trace) -> tuple[str, ...]:
    """Return the pictures for which a run has something, in the order they stand."""
    own = [v for v in VISUALS.values() if any(v.draws(step) for step in trace.steps)]
    return tuple(visual.name for visual in own if visual.name not in COMMON)
