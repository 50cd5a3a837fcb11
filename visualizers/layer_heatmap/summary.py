"""Summary of the layer heatmap: the entropy of every layer, and how likely it found the chosen token."""

from __future__ import annotations

from engine.trace.details import LayerDetail
from engine.trace.records import Step, Trace
from visualizers.base import StepSummary, Visual, has_detail, nats_to_bits, to_probability


class LayerSummary:
    """Entropies and chances of a step's layers.

    Values per step and layer: ``entropy`` in bits of the output head on the layer, and with the final
    norm applied first ``normed_entropy`` and ``chance``, the probability of the emitted token.
    """

    def __init__(self, run: Trace) -> None:
        del run

    def add(self, step: Step) -> StepSummary | None:
        """Add a step and return its values; None without a layer detail."""
        if not isinstance(step.detail, LayerDetail):
            return None
        return {
            "entropy": [nats_to_bits(reading.entropy) for reading in step.detail.layers],
            "normed_entropy": [
                nats_to_bits(reading.normed_entropy) for reading in step.detail.layers
            ],
            "chance": [to_probability(reading.normed_logprob) for reading in step.detail.layers],
        }


VISUALS = (Visual("layer_heatmap", LayerSummary, has_detail(LayerDetail), plotly=True, order=30),)
