"""The length decay: end-of-sequence grows more likely."""

from __future__ import annotations

from engine.declare.params import Decay, param
from engine.processors.filter import Filter

FILTER = Filter(
    name="ExponentialDecayLengthPenalty",
    title="Length decay",
    parameter="exponential_decay_length_penalty",
    off=None,
    params={
        # It adds abs(score) * (factor ** n - 1) to the end token, n tokens after the start. That grows with the
        # text, which ``stretch`` does not see, so none is given.
        "exponential_decay_length_penalty": param(
            Decay(
                label="Length decay",
                group="length",
                optional=True,
                help="[start, factor]: after start tokens, the end becomes more and more likely.",
            ),
            None,
        )
    },
)
