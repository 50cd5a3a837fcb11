"""The dials that a map can have, and which of them are proven.

The theorem: rank the tokens of a step by score. Let the kept tokens always be the best n of one fixed
order, with n never falling as the dial moves, and let the weight of a better token relative to a worse
one never rise. Then the winner of the race never gets a better rank. So equal tokens at both ends of an
interval prove that token for the whole interval.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engine.declare.params import Integer, Number, params_of
from engine.errors import ParameterError
from engine.messages import Message
from engine.processors import FILTERS
from engine.strategies.sampling import SamplingConfig

_ATTRIBUTES = {
    "typical_p": "mass",
    "epsilon_cutoff": "epsilon",
    "eta_cutoff": "epsilon",
    "repetition_penalty": "penalty",
    "dry_multiplier": "multiplier",
    "top_n_sigma": "n",
}
"""Parameter -> attribute of its processor, where the two have different names."""
_PREFIX_FILTERS = ("top_k", "top_p", "min_p", "top_n_sigma")
"""They keep the best tokens by score, so several of them and a temperature keep the theorem."""
_OWN_ORDER_FILTERS = ("top_h", "typical_p", "epsilon_cutoff", "eta_cutoff")
"""They are proven only as the dial itself: temperature can make them keep more or fewer tokens."""
_PENALTIES = ("repetition_penalty", "dry_multiplier")
"""They change the order of the tokens."""
DIALS = ("temperature", *_PREFIX_FILTERS, *_OWN_ORDER_FILTERS, *_PENALTIES)
"""Parameters of sampling that can be the dial of a map."""
SECOND_DIALS = ("temperature", "top_k", "top_p", "min_p")
"""Parameters of which two can be the dials of a map together: with one of them fixed, the other is proven."""
MAX_STOPS = 400
EDGE_WIDTH = 1e-3
"""Relative distance from an edge within which a real run may write the text of the other side."""
NARROW = 1e-4
"""An interval narrower than this share of its value is not sure."""


@dataclass(frozen=True)
class Ticks:
    """The values of a dial, numbered: its stops, or every float32 of a range.

    Attributes:
        first: number of the lowest value.
        last: number of the highest value.
        stops: the values, if they are not every float32.
    """

    first: int
    last: int
    stops: tuple[float, ...] | None = None

    def value(self, tick: int) -> float:
        """Return the value with a number."""
        return float32_from_bits(tick) if self.stops is None else self.stops[tick]

    def is_wide(self, first: int, last: int) -> bool:
        """Return whether a real run can be sure to hit an interval."""
        low, high = self.value(first), self.value(last)
        return self.stops is not None or high - low >= NARROW * high

    def inside(self, first: int, last: int) -> tuple[int, int]:
        """Return the ticks of an interval that lie just outside the width of its edges."""
        if self.stops is not None:
            return first, last
        low, high = self.value(first), self.value(last)
        third = (high - low) / 3
        return (
            max(first, float32_bits(low + min(EDGE_WIDTH * low, third))),
            min(last, float32_bits(high - min(EDGE_WIDTH * high, third))),
        )


def float32_bits(value: float) -> int:
    """Return the bits of a float32 at least 0; larger values have larger bits."""
    return struct.unpack("<i", struct.pack("<f", value))[0]


def float32_from_bits(bits: int) -> float:
    """Return the float32 with these bits."""
    return struct.unpack("<f", struct.pack("<i", bits))[0]


def attribute_of(dial: str) -> str:
    """Return the attribute of a dial's processor that has its value."""
    return _ATTRIBUTES.get(dial, dial)


def processor_name(dial: str) -> str:
    """Return the name of a dial's processor in records."""
    return next(one.name for one in FILTERS.values() if one.parameter == dial)


def unproven_reason(dial: str, config: object) -> str:
    """Return one sentence on why the theorem does not hold for a dial, empty if it does.

    Args:
        dial: one of DIALS.
        config: the run's config, which has the other filters.
    """
    if dial in _PENALTIES:
        return Message(
            "Only the stops are decided: a penalty changes the order of the tokens, so other texts "
            "may lie between two stops."
        )
    off = {one.parameter: one.off for one in FILTERS.values()}
    others = [n for n in _OWN_ORDER_FILTERS if n != dial and getattr(config, n) != off[n]]
    if not others:
        return ""
    return Message(
        "Only the stops are decided: with {filter} a token may leave and return, so other texts "
        "may lie between two stops.",
        filter=FILTERS[processor_name(others[0])].title,
    )


def read_ticks(
    dial: str, low: object, high: object, stops: Sequence[float] | None, *, proven: bool
) -> Ticks:
    """Return the checked values of a dial.

    Args:
        dial: one of DIALS.
        low: lowest value.
        high: highest value, above ``low``.
        stops: the only values that matter, ascending and within the range; None for the default.
        proven: whether intervals are proven; if not, the default is the stops of the dial's slider.

    Raises:
        ParameterError: a value is out of range, or there are more than MAX_STOPS stops.
    """
    checked_low, checked_high = (check_dial_value(dial, value) for value in (low, high))
    if not checked_low < checked_high:
        raise ParameterError(
            "low", low, Message("it must be below high = {high}", high=checked_high)
        )
    if stops is None and (dial == "top_k" or not proven):
        stops = _slider_stops(dial, checked_low, checked_high)
    if stops is None:
        # A value at the end of the range may switch the filter off, as typical_p = 1 does.
        ends = float32_bits(checked_low), float32_bits(checked_high)
        return Ticks(ends[0], ends[1] - (checked_high == _off_value(dial)))
    values = tuple(check_dial_value(dial, value) for value in stops)
    if not 2 <= len(values) <= MAX_STOPS or list(values) != sorted(set(values)):
        allowed = Message("it must be 2 to {most} ascending values", most=MAX_STOPS)
        raise ParameterError("stops", len(values), allowed)
    return Ticks(0, len(values) - 1, values)


def check_dial_value(dial: str, value: object) -> float:
    """Return a value at which a map can have the dial.

    Raises:
        ParameterError: it is out of range, or switches the filter off.
    """
    checked = params_of(SamplingConfig)[dial].check(dial, value)
    # 0 switches top-k off, and null other filters.
    if checked is None or (dial == "top_k" and checked < 1):
        raise ParameterError(dial, value, "a map needs values at which the filter is on")
    return checked


def _off_value(dial: str) -> Any:
    return FILTERS[processor_name(dial)].off


def _slider_stops(dial: str, low: float, high: float) -> list[float]:
    kind = params_of(SamplingConfig)[dial]
    if isinstance(kind, Integer):
        return [*range(int(low), int(high) + 1)]
    assert isinstance(kind, Number)
    # 0.3 / 0.1 is 2.9999…, which would lose the last stop.
    count = int((high - low) / kind.step + 1e-9)
    if count >= MAX_STOPS:
        allowed = Message("a map has at most {most} stops", most=MAX_STOPS)
        raise ParameterError("high", high, allowed)
    stops = [round(low + i * kind.step, 6) for i in range(count + 1)]
    return stops if stops[-1] >= high else [*stops, high]
