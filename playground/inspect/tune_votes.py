"""The votes of a visitor as a measure of a table.

They stay in the browser, which sends them with the question: no other visitor can have them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.analysis.tune.measures import VOTES
from engine.analysis.tune.table import Table
from engine.analysis.tune.table_view import measure_view
from engine.analysis.tune.votes import read_votes
from playground.forms.tune_form import read_table_form
from playground.storage.table_store import TableStore

ACTIONS = ("tune_votes",)


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``measure``, what the page draws of the votes; None without any.

    Args:
        payload: see ``read_table_form``; ``table``, the id of the table, whose other measures qualify
            the votes; ``votes``, see ``read_votes``.

    Raises:
        EngineError: one sentence on what is wrong.
    """
    plan = read_table_form(payload)
    votes = read_votes(payload.get("votes"), plan)
    if not votes:
        return {"measure": None}
    table = Table(plan, votes)
    for result in TableStore(plan, payload.get("table")).load_results():
        table.add(result)
    return {"measure": measure_view(table, VOTES)}
