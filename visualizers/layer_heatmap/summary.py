"""The layer map: how uncertain every layer was, in bits."""

from __future__ import annotations

from engine.trace.details import LayerDetail
from engine.trace.records import Step, Trace
from visualizers.base import Shown, bits


class Readings:
    """The entropies of a step's layers.

    Shows of a step: per layer ``entropy``, that of the output head on the layer as it is, and
    ``normed_entropy``, that with the final norm applied first, both in bits.
    """

    def __init__(self, run: Trace) -> None:
        del run

    def add(self, step: Step) -> Shown | None:
        """Take a step."""
        if not isinstance(step.detail, LayerDetail):
            return None
        return {
            "entropy": [bits(reading.entropy) for reading in step.detail.layers],
            "normed_entropy": [bits(reading.normed_entropy) for reading in step.detail.layers],
        }
