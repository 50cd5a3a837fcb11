"""The seeds of a comparison: one, a list such as ``0, 1, 2`` or a range such as ``0-4``."""

from __future__ import annotations

import re
from typing import Any

from engine.errors import ParameterError
from engine.messages import Message
from engine.run.request import MAX_SEED
from playground.forms.controls import to_int

MAX_SEEDS = 5
_MAX_CHARS = 200
_SEED = re.compile(r"[0-9]{1,19}")
# People also type an en dash.
_RANGE = re.compile(r"([0-9]{1,19})\s*[-–]\s*([0-9]{1,19})")


def read_seeds(given: Any) -> tuple[int, ...]:
    """Return the different seeds that a field names, in its order.

    Raises:
        ParameterError: it names none, more than ``MAX_SEEDS``, or something that is no seed.
    """
    value = to_int(given)
    if isinstance(value, int) and not isinstance(value, bool):
        seeds: list[int] | None = [value]
    else:
        seeds = _parse(value) if isinstance(value, str) and len(value) <= _MAX_CHARS else None
    found = tuple(dict.fromkeys(seeds or ()))
    if not 1 <= len(found) <= MAX_SEEDS or not all(0 <= seed <= MAX_SEED for seed in found):
        allowed = Message(
            "write 1 to {most} whole numbers from 0 to {largest}, such as 0, 1, 2 or 0-4",
            most=MAX_SEEDS,
            largest=MAX_SEED,
        )
        raise ParameterError("seed", given, allowed)
    return found


def format_seeds(seeds: tuple[int, ...]) -> str:
    """Return seeds as text that ``read_seeds`` reads."""
    return ", ".join(map(str, seeds))


def _parse(text: str) -> list[int] | None:
    """Return the seeds of a text, None if a part of it is neither a seed nor a range."""
    found: list[int] = []
    for part in text.split(","):
        bounds = _RANGE.fullmatch(part.strip())
        if bounds:
            first, last = map(int, bounds.groups())
            # One more than allowed is enough to refuse a long range.
            found += range(first, min(last, first + MAX_SEEDS) + 1)
        elif _SEED.fullmatch(part.strip()):
            found.append(int(part))
        else:
            return None
    return found
