"""Temperature: divides the logits before the softmax."""

from __future__ import annotations

from engine.declare.params import Number, param
from engine.processors.filter import RESCALES, Filter
from engine.processors.scores import at_least_one
from engine.statistics.term import Term

FILTER = Filter(
    name="Temperature",
    title="Temperature",
    parameter="temperature",
    off=1.0,
    params={
        "temperature": param(
            Number(
                label="Temperature",
                minimum=0.001,
                maximum=100,
                slider_maximum=3,
                step=0.01,
                help="Low values favour likely tokens, high values give rare tokens a chance.",
            ),
            1.0,
        )
    },
    effect=RESCALES,
    stretch=lambda processor: at_least_one(1 / processor.temperature),
    term=Term(
        "temperature",
        "Divides every logit before the softmax. Below 1 the likely tokens gain, above 1 the unlikely ones do.",
        "Temperature does not change the order of the tokens, so it makes no difference "
        "where nothing is drawn.",
        params=("temperature",),
    ),
)
