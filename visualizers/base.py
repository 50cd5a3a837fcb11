"""What a visual is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.trace.records import Trace


@dataclass(frozen=True)
class Visual:
    """One picture of a run and the table that carries the same facts."""

    name: str
    """Name of the component and of the strategy's entry in ``visuals``."""
    title: str
    view: Callable[[Trace], dict[str, Any]]
    """Trace -> {"columns": [...], "rows": [...], "figure": Plotly JSON or absent}."""
