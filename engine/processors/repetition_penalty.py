"""The repetition penalty: makes tokens that already occurred less likely."""

from __future__ import annotations

from engine.declare.params import Number, param
from engine.processors.filter import Filter
from engine.processors.scores import at_least_one
from engine.statistics.term import Term

FILTER = Filter(
    name="RepetitionPenalty",
    title="Repetition penalty",
    parameter="repetition_penalty",
    off=1.0,
    params={
        "repetition_penalty": param(
            Number(
                label="Repetition penalty",
                group="penalties",
                minimum=0.5,
                maximum=5,
                slider_maximum=2,
                step=0.05,
                help="Above 1 makes tokens that already occurred less likely.",
                papers=("1909.05858",),
            ),
            1.0,
        )
    },
    # It divides scores above 0 and multiplies those below, so a difference grows by the penalty or its
    # reciprocal, whichever is above 1.
    stretch=lambda processor: at_least_one(processor.penalty) * at_least_one(1 / processor.penalty),
    term=Term(
        "repetition penalty",
        "Divides the positive logits of tokens that occurred before, and multiplies their negative ones, "
        "by this number.",
        "It counts every earlier token, those of the prompt and the commas too.",
        params=("repetition_penalty",),
    ),
)
