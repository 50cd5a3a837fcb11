"""Replaces scores that are not finite."""

from __future__ import annotations

from engine.declare.params import Flag, param
from engine.processors.filter import Filter

FILTER = Filter(
    name="InfNanRemove",
    title="Remove NaN and inf",
    parameter="remove_invalid_values",
    off=False,
    params={
        "remove_invalid_values": param(
            Flag(
                label="Remove NaN and inf",
                group="advanced",
                help="Replace NaN and infinite scores that a filter produced.",
            ),
            False,
        )
    },
)
