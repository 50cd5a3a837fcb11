"""Numbers and tokens as text, as the page shows them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from engine.messages import Message

_MARKS = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\u0000": "␀", "\u00a0": "⍽"}
_INVISIBLE = re.compile("[\u0000-\u001f\u00a0\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def mark_invisible(text: str) -> str:
    """Replace invisible characters by visible marks, as the page does."""
    return _INVISIBLE.sub(lambda m: _MARKS.get(m[0]) or f"⟨U+{ord(m[0]):04X}⟩", text)


def format_token(piece: str) -> str:
    """Format a token like the page: leading and trailing spaces are dots."""
    return re.sub("^ +| +$", lambda m: "·" * len(m[0]), mark_invisible(piece))


def quote_token(piece: str) -> str:
    """Return a token in quotation marks."""
    return f"“{format_token(piece)}”"


def format_percent(p: float) -> str:
    """Format a probability like the page: two decimals, or two digits of a small value.

    Only probability 1 is "100 %": smaller ones are not rounded up to it.
    """
    if p >= 1 or p <= 0:
        return "100 %" if p >= 1 else "0 %"
    # Two decimals would round it up to 100.00.
    if p >= 0.99995:
        return ">99.99 %"
    if p < 0.000001:
        return "<0.0001 %"
    if p >= 0.001:
        return f"{100 * p:.{2 if p < 0.1 or p >= 0.9995 else 1}f} %"
    return f"{100 * p:.{1 - math.floor(math.log10(100 * p))}f} %"


def format_number(value: float, digits: int | None = None) -> str:
    """Format a number with a true minus sign, and with all digits before the point.

    Args:
        value: any number.
        digits: significant digits; without it three, but at most two decimals, and two of a number
            below 0.1.
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    # Very small and very large numbers use a power of ten with superscript digits.
    size = math.floor(math.log10(abs(value)))
    digits = digits or (3 if size >= 0 else 2)
    if not _MIN_EXPONENT <= size <= _MAX_EXPONENT:
        return (
            f"{value / 10**size:.{digits - 1}f} × 10{str(size).translate(_SUPERSCRIPTS)}".replace(
                "-", "−"
            )
        )
    return f"{value:,.{max(0, digits - 1 - size)}f}".replace("-", "−")


_MIN_EXPONENT, _MAX_EXPONENT = -4, 8
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def format_distinct(a: float, b: float) -> tuple[str, str]:
    """Format two numbers with enough digits to differ."""
    for digits in (None, *range(3, 9)):
        pair = format_number(a, digits), format_number(b, digits)
        if pair[0] != pair[1]:
            return pair
    return format_number(a), format_number(b)


def format_gap(a: float, b: float) -> tuple[str, str, str]:
    """Format two sums and the gap from the first to the second, so that the three agree.

    They have two decimals, or more if the gap is small.
    """
    decimals = 2
    while decimals < 6 and abs(b - a) < 10 ** (1 - decimals):
        decimals += 1
    low, high = round(a, decimals), round(b, decimals)
    texts = (f"{value:,.{decimals}f}".replace("-", "−") for value in (low, high, high - low))
    own, needed, gap = texts
    return own, needed, gap


def format_total(value: float) -> str:
    """Format a sum of log-probabilities."""
    return f"{value:,.2f}".replace("-", "−")


def format_share(value: float) -> str:
    """Format a share strictly between 0 and 1 so that it does not read as 0 or 1."""
    for digits in range(2, 9):
        text = f"{value:.{digits}f}"
        if 0 < float(text) < 1:
            return text.rstrip("0")
    return format_value(round(value, 8))


def format_value(value: float) -> str:
    """Format a parameter's value as a user types it."""
    return f"{value:.10g}"


def format_ordinal(n: int) -> str:
    """Return first, second, third, or number n."""
    return {1: "first", 2: "second", 3: "third"}.get(n, Message("number {n}", n=n))


def round_up_until(bound: float, holds: Callable[[float], bool], most: float) -> float | None:
    """Return the shortest decimal number at or above a bound that satisfies a condition, or None.

    Args:
        bound: no smaller number can satisfy it.
        holds: tests a number.
        most: the number stays below it.
    """
    return _round_until(bound, holds, math.ceil, 1, lambda value: value < most)


def round_down_until(bound: float, holds: Callable[[float], bool], least: float) -> float | None:
    """Return the shortest decimal number at or below a bound that satisfies a condition, or None.

    It is larger than ``least`` and at least nine tenths of the bound.
    """
    near = lambda value: value > least and value >= 0.9 * bound  # noqa: E731
    return _round_until(bound, holds, math.floor, -1, near)


def _round_until(
    bound: float,
    holds: Callable[[float], bool],
    cut: Callable[[float], int],
    step: int,
    fits: Callable[[float], bool],
) -> float | None:
    for digits in range(2, 10):
        unit = 10**digits
        for further in (0, 1):
            value = (cut(bound * unit) + further * step) / unit
            if fits(value) and holds(value):
                return value
    return None
