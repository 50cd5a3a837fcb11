"""Pictures of a trace: pure functions of plain data, no model and no web framework.

Every visual has a folder: ``summary.py`` makes its numbers, step by step as a run goes on, and the
same facts as a table; ``view.mjs`` and ``view.css`` draw them. ``shared`` holds what the views have
in common; none of them imports anything from outside this package.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.trace.records import Trace
from visualizers.base import Summaries, Visual
from visualizers.beam_tree import summary as beams
from visualizers.contrastive import summary as contrast
from visualizers.distribution import summary as step
from visualizers.draft_timeline import summary as drafts
from visualizers.layer_heatmap import summary as layers
from visualizers.watermark import summary as marks

VISUALS: dict[str, Visual] = {
    visual.name: visual
    for visual in (
        Visual("candidates", "Candidates of this step", step.candidates, step.Candidates),
        Visual("xray", "Processor X-ray", step.xray, step.Stages),
        Visual("draw", "The draw", step.draw),
        Visual("chart", "Surprise and entropy over the text", step.chart, step.Chart),
        Visual("beam_tree", "Beam tree", beams.view),
        Visual("beam_rescore", "Another length penalty", beams.rescored),
        Visual("contrastive", "Candidates: confidence against similarity", contrast.view, contrast.Looks),
        Visual("layer_heatmap", "Layer map: what every layer would have said", layers.view),
        Visual("watermark", "The mark in the text", marks.view, marks.Marks),
        Visual(
            "draft_timeline",
            "Accepted and rejected, round by round",
            drafts.view,
            drafts.Rounds,
        ),
    )
}


def summaries(run: Trace, names: Iterable[str]) -> Summaries:
    """Begin the numbers of a run's pictures; see ``Summaries``."""
    return Summaries(run, names, VISUALS)
