"""Pictures of a trace: pure functions of plain data, no model and no web framework.

Every visual has a component in assets/components that draws steps as they arrive, and a ``view``
here that states the same facts as a table (and a Plotly figure where one is drawn).
"""

from __future__ import annotations

from visualizers import (
    beam_tree,
    contrastive,
    distribution,
    draft_timeline,
    layer_heatmap,
    watermark,
)
from visualizers.base import Visual

VISUALS: dict[str, Visual] = {
    visual.name: visual
    for visual in (
        Visual("candidates", "Candidates of this step", distribution.candidates),
        Visual("xray", "Processor X-ray", distribution.xray),
        Visual("draw", "The draw", distribution.draw),
        Visual("chart", "Surprise and entropy over the text", distribution.chart),
        Visual("beam_tree", "Beam tree", beam_tree.view),
        Visual("beam_rescore", "Another length penalty", beam_tree.rescored),
        Visual("contrastive", "Candidates: confidence against similarity", contrastive.view),
        Visual("layer_heatmap", "Layer map: what every layer would have said", layer_heatmap.view),
        Visual("watermark", "The mark in the text", watermark.view),
        Visual("draft_timeline", "Accepted and rejected, round by round", draft_timeline.view),
    )
}
