"""Parameters that only ``make nightly`` runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def mark_nightly(parameters: Iterable[Any]) -> list[Any]:
    """Return parameters of a test, marked ``nightly``; a tuple has a value for each of its names."""
    values = (one if isinstance(one, tuple) else (one,) for one in parameters)
    return [pytest.param(*one, marks=pytest.mark.nightly) for one in values]
