"""The encoder repetition penalty: favours tokens of the prompt."""

from __future__ import annotations

from engine.declare.params import Number, param
from engine.processors.filter import Filter

FILTER = Filter(
    name="EncoderRepetitionPenalty",
    title="Encoder repetition penalty",
    parameter="encoder_repetition_penalty",
    off=1.0,
    params={
        # transformers applies the reciprocal, so it acts against repetition_penalty: above 1 it favours.
        "encoder_repetition_penalty": param(
            Number(
                label="Encoder repetition penalty",
                group="penalties",
                minimum=0.5,
                maximum=5,
                step=0.05,
                help="Above 1 favours tokens of the prompt.",
            ),
            1.0,
        )
    },
)
