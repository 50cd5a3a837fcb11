"""The results of tables in the journal, from which a table goes on after a restart."""

from __future__ import annotations

import hashlib
import json

from engine.analysis.tune.cell_result import CellResult, result_from_dict, result_to_dict
from engine.analysis.tune.plan import Cell, TunePlan
from playground.storage.journal import JOURNAL

_MAX_ID_CHARS = 64


class TableStore:
    """The results of one table, under an id that nobody can guess.

    Args:
        plan: the table's plan.
        table: its id, as the page sent it; nothing is stored without one.
    """

    def __init__(self, plan: TunePlan, table: object) -> None:
        self.plan, self.table = plan, str(table or "")[:_MAX_ID_CHARS]

    def _run_id(self, cell: Cell) -> str:
        return hashlib.sha256(f"{self.table}:{self.plan.cell_key(cell)}".encode()).hexdigest()

    def load_results(self) -> list[CellResult]:
        """Return the stored results; those of other tables have other ids."""
        found: list[CellResult] = []
        for cell in self.plan.cells if self.table else ():
            for message in JOURNAL.stored_messages(self._run_id(cell))[-1:]:
                data = json.loads(message)
                if "result" in data:
                    found.append(result_from_dict(data["result"]))
        return found

    def store_result(self, result: CellResult) -> None:
        """Store a finished result; a failed run is tried again next time."""
        if self.table and result.is_judged and not result.error:
            messages = JOURNAL.open(self._run_id(result.cell))
            messages.add({"kind": "finish", "result": result_to_dict(result)})
