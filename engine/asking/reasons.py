"""An answer about a token of a recorded step, and the words it is written in."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SURVIVES = "survives"
"""No processor removes the token any more."""
CHOSEN = "chosen"
"""The step writes the token."""
KEPT = "kept"
"""The hypothesis with the token goes on, or joins the finished ones."""
CONSIDERED = "considered"
"""The token is one of those that are looked at more closely."""
ACCEPTED = "accepted"
"""The drafted token stands."""


@dataclass(frozen=True)
class Fact:
    """One number of an answer.

    Attributes:
        name: what it is, in two to five words.
        value: as a reader takes it, with its unit.
        meaning: one sentence.
    """

    name: str
    value: str
    meaning: str


@dataclass(frozen=True)
class Claim:
    """What would have to be otherwise, so that a program can try it.

    Attributes:
        changes: parameter -> value; everything else stays, the noise of the step, too.
        then: what would hold of the token; one of the names above.
        at_step: whether a run whose parameters are changed as a whole may part earlier, so that the
            claim is about the step with its text before it given.
    """

    changes: Mapping[str, Any]
    then: str
    at_step: bool = False


@dataclass(frozen=True)
class Reason:
    """Why a step took a token, or why it did not.

    Attributes:
        token_id: of the model's vocabulary.
        name: the token as the page writes it.
        sentence: the answer in plain words.
        chosen: whether the step wrote the token.
        facts: the numbers behind the sentence.
        claim: what would have to be otherwise, None where nothing of that kind is said.
        scope: one sentence on what was looked at.
        exact: whether that was the whole vocabulary.
    """

    token_id: int
    name: str
    sentence: str
    chosen: bool = False
    facts: tuple[Fact, ...] = ()
    claim: Claim | None = None
    scope: str = ""
    exact: bool = True


@dataclass
class Wording:
    """An answer while it is written."""

    sentences: list[str] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    claim: Claim | None = None
    chosen: bool = False

    def say(self, *sentences: str) -> None:
        """Add sentences; empty ones are left out."""
        self.sentences += [sentence for sentence in sentences if sentence]

    def fact(self, name: str, value: str, meaning: str) -> None:
        """Add a number."""
        self.facts.append(Fact(name, value, meaning))


_MARKS = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\u0000": "␀", "\u00a0": "⍽"}
_INVISIBLE = re.compile("[\u0000-\u001f\u00a0\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


def visible(text: str) -> str:
    """Return a text whose invisible characters can be seen, as the page shows them."""
    return _INVISIBLE.sub(lambda m: _MARKS.get(m[0]) or f"⟨U+{ord(m[0]):04X}⟩", text)


def shown(piece: str) -> str:
    """Return a token as the page shows it: the spaces at its ends are dots."""
    return re.sub("^ +| +$", lambda m: "·" * len(m[0]), visible(piece))


def quoted(piece: str) -> str:
    """Return a token in quotation marks."""
    return f"“{shown(piece)}”"


def percent(p: float) -> str:
    """Return a probability in words, as exact as it is large, as the page does."""
    if p >= 0.9995:
        return "100 %"
    if p >= 0.1:
        return f"{100 * p:.1f} %"
    if p >= 0.0001:
        return f"{100 * p:.2f} %"
    return "<0.01 %" if p > 0 else "0"


def number(value: float, digits: int = 3) -> str:
    """Return a number of so many significant digits, written out, with a true minus sign.

    Numbers of more than three places before the point keep them all.
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if not _SMALL <= size <= _LARGE:
        return f"{value / 10**size:.{digits - 1}f} × 10{str(size).translate(_RAISED)}".replace(
            "-", "−"
        )
    return f"{value:,.{max(0, digits - 1 - size)}f}".replace("-", "−")


_SMALL, _LARGE = -5, 8
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def apart(a: float, b: float) -> tuple[str, str]:
    """Return two numbers with as many digits as it takes to tell them apart."""
    for digits in range(3, 9):
        pair = number(a, digits), number(b, digits)
        if pair[0] != pair[1]:
            return pair
    return number(a), number(b)


def level(a: float, b: float) -> tuple[str, str, str]:
    """Return two sums and how far the first is below the second, so that the three agree.

    They have two decimals, more where the difference is small.
    """
    decimals = 2
    while decimals < 6 and abs(b - a) < 10 ** (1 - decimals):
        decimals += 1
    low, high = round(a, decimals), round(b, decimals)
    texts = (f"{value:,.{decimals}f}".replace("-", "−") for value in (low, high, high - low))
    own, needed, gap = texts
    return own, needed, gap


def total(value: float) -> str:
    """Return a sum of log-probabilities."""
    return f"{value:,.2f}".replace("-", "−")


def share(value: float) -> str:
    """Return a share between 0 and 1 that is neither of them, as parameters are written."""
    for digits in range(3, 9):
        text = f"{value:.{digits}f}"
        if 0 < float(text) < 1:
            return text.rstrip("0")
    return plain(round(value, 8))


def plain(value: float) -> str:
    """Return a parameter's value as it is typed."""
    return f"{value:.10g}"


def ordinal(n: int) -> str:
    """Return first, second, third, or number n."""
    return {1: "first", 2: "second", 3: "third"}.get(n, f"number {n}")


def joined(parts: Sequence[str]) -> str:
    """Return "a", "a and b", or "a, b and c"."""
    *head, last = parts
    return f"{', '.join(head)} and {last}" if head else last


def at_least(bound: float, holds: Callable[[float], bool], most: float) -> float | None:
    """Return the number of fewest decimals above a bound for which something holds.

    Args:
        bound: nothing below it can hold.
        holds: tries a number.
        most: the number stays below it.
    """
    return _rounded(bound, holds, math.ceil, 1, lambda value: value < most)


def at_most(bound: float, holds: Callable[[float], bool], least: float) -> float | None:
    """Return the number of fewest decimals below a bound for which something holds, above ``least``.

    It is no further than a tenth of the bound away from it.
    """
    near = lambda value: value > least and value >= 0.9 * bound  # noqa: E731
    return _rounded(bound, holds, math.floor, -1, near)


def _rounded(
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
