"""Answers how many runs a table has and how long they take, before the first of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.analysis.tune.estimate import estimate_seconds
from playground.forms.tune_form import read_table_form

ACTIONS = ("tune_plan",)


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the number of ``runs``, the expected ``seconds`` or None, and whether a server runs them.

    Args:
        payload: see ``read_table_form``.

    Raises:
        EngineError: one sentence on what is wrong.
    """
    plan = read_table_form(payload)
    return {
        "runs": len(plan.cells),
        "seconds": estimate_seconds(plan),
        "on_server": plan.is_on_server,
    }
