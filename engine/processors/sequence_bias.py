"""The sequence bias: adds a number to the logit that would complete a sequence."""

from __future__ import annotations

from engine.declare.params import Biases, param
from engine.processors.filter import Filter
from engine.processors.scores import no_stretch

FILTER = Filter(
    name="SequenceBias",
    title="Sequence bias",
    parameter="sequence_bias",
    off=None,
    params={
        "sequence_bias": param(
            Biases(
                label="Sequence bias",
                group="tokens",
                optional=True,
                help=(
                    "Makes a sequence more or less likely by adding a number to the logit that would "
                    "complete it."
                ),
            ),
            None,
        )
    },
    stretch=no_stretch,
)
