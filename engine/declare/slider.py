"""The range of a parameter's slider."""

from __future__ import annotations

from engine.declare.params import Integer, Number

_MAX_STOPS = 100_000
"""A slider with more stops than this is too fine to set by hand."""


def slider_bounds(kind: Number | Integer) -> tuple[float, float] | None:
    """Return a slider's two ends, both allowed values; None if the parameter has no slider."""
    low, high = kind.minimum, kind.slider_maximum or kind.maximum
    if (high - low) / kind.step > _MAX_STOPS:
        return None
    if isinstance(kind, Number):
        # An open bound is not an allowed value, so the slider ends one step inside it.
        if kind.above_minimum:
            low += kind.step
        # Stops are multiples of the step: a temperature from 0.001 begins at 0.01.
        elif 0 < low < kind.step:
            low = kind.step
        if kind.below_maximum and high == kind.maximum:
            high -= kind.step
    return low, high
