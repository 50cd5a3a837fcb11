"""Parameters that only ``make nightly`` runs."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterable, Sequence
from typing import Any

import pytest


def cases_by_day(cases: Sequence[str], chosen: Sequence[int | str]) -> set[str]:
    """Return the cases of a test that run by day, of those that are not nightly already.

    Args:
        cases: ids of these cases, in their order.
        chosen: what its mark ``by_day`` holds: ids, or a number of cases, taken at equal distances.

    Raises:
        ValueError: there is no such case.
    """
    named = {case for case in chosen if isinstance(case, str)}
    if named:
        missing = named.difference(cases)
        if missing:
            raise ValueError(f"there are no cases {sorted(missing)}")
        return named
    number = min(int(chosen[0]), len(cases))
    last = max(number - 1, 1)
    return {cases[at * (len(cases) - 1) // last] for at in range(number)}


def mark_nightly(parameters: Iterable[Any]) -> list[Any]:
    """Return parameters of a test, marked ``nightly``; a tuple has a value for each of its names."""
    values = (one if isinstance(one, tuple) else (one,) for one in parameters)
    return [pytest.param(*one, marks=pytest.mark.nightly) for one in values]


def some_by_day(parameters: Iterable[Any], by_day: Container[Any]) -> list[Any]:
    """Return parameters of a test, marked ``nightly`` but for some."""
    return [
        pytest.param(one, marks=() if one in by_day else pytest.mark.nightly) for one in parameters
    ]


def cross(*axes: Sequence[Any]) -> list[Any]:
    """Return every combination of values as parameters of a test: by day each value once, by night all.

    By day the axes are read side by side, and a shorter axis begins again: three models and six settings are
    six tests by day and eighteen by night.
    """
    longest = max(len(axis) for axis in axes)
    by_day = {tuple(number % len(axis) for axis in axes) for number in range(longest)}
    return [
        pytest.param(
            *(axis[index] for axis, index in zip(axes, place, strict=True)),
            marks=() if place in by_day else pytest.mark.nightly,
        )
        for place in itertools.product(*(range(len(axis)) for axis in axes))
    ]
