"""Classifier-free guidance against a negative prompt."""

from __future__ import annotations

from engine.declare.params import Number, Text, TokenIds, param
from engine.processors.filter import Filter
from engine.statistics.term import Term

FILTER = Filter(
    name="UnbatchedClassifierFreeGuidance",
    title="Guidance",
    parameter="guidance_scale",
    off=None,
    params={
        "guidance_scale": param(
            Number(
                label="Guidance scale",
                group="advanced",
                minimum=-10,
                maximum=20,
                step=0.1,
                optional=True,
                help=(
                    "How strongly to steer away from the negative prompt (classifier-free guidance); 1 "
                    "is off."
                ),
                papers=("2306.17806",),
            ),
            None,
        ),
        "negative_prompt": param(
            Text(
                label="Negative prompt",
                help="The text to steer away from.",
                group="advanced",
                optional=True,
            ),
            None,
        ),
        "negative_prompt_ids": param(
            TokenIds(
                label="Negative prompt ids",
                help="The negative prompt as ids.",
                group="advanced",
                optional=True,
            ),
            None,
        ),
    },
    term=Term(
        "guidance",
        "Compares the model's scores with those for a negative prompt and goes further in the direction "
        "of the difference.",
        params=("guidance_scale",),
    ),
    needs_rerun="guidance asks the model once more at every step",
)
