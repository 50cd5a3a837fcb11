"""Normalises the scores again after all other filters."""

from __future__ import annotations

from engine.declare.params import Flag, param
from engine.processors.filter import RESCALES, Filter

FILTER = Filter(
    name="LogitNormalization",
    title="Renormalise",
    parameter="renormalize_logits",
    off=False,
    params={
        "renormalize_logits": param(
            Flag(label="Renormalise", help="Normalise again after all filters.", group="advanced"),
            False,
        )
    },
    effect=RESCALES,
    # A score and the sum that is subtracted from it may move towards each other.
    stretch=lambda processor: 2.0,
)
