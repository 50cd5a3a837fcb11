"""The result of one run of a table, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from engine.analysis.tune.plan import Cell
from engine.trace.records import Trace


@dataclass(frozen=True)
class CellResult:
    """A finished run of a table.

    Attributes:
        cell: its place.
        text: the new text, without the prompt.
        token_ids: its tokens.
        finish_reason: see ``trace.records.FINISH_REASONS``; ``error`` for a run that failed.
        values: measure -> number, None where it has none.
        error: the sentence of a run that failed.
        seconds: how long the run took.
        is_judged: whether all its measures are there; a text may still wait for the judge model.
        trace: the record of the run, only while the table is run and not of an earlier one.
    """

    cell: Cell
    text: str = ""
    token_ids: tuple[int, ...] = ()
    finish_reason: str = "error"
    values: Mapping[str, float | None] = field(default_factory=dict[str, float | None])
    error: str = ""
    seconds: float = 0.0
    is_judged: bool = True
    trace: Trace | None = field(default=None, compare=False, repr=False)


def result_to_dict(result: CellResult) -> dict[str, Any]:
    """Return a result as JSON values, without its trace."""
    fields = {name: getattr(result, name) for name in CellResult.__dataclass_fields__}
    del fields["trace"]
    return {**fields, "cell": asdict(result.cell), "token_ids": list(result.token_ids)}


def result_from_dict(data: Mapping[str, Any]) -> CellResult:
    """Return the result of ``result_to_dict``.

    Raises:
        KeyError, TypeError, ValueError: the data is not of such a result.
    """
    known: dict[str, Any] = {
        name: data[name] for name in CellResult.__dataclass_fields__ if name != "trace"
    }
    known["cell"], known["token_ids"] = Cell(**data["cell"]), tuple(data["token_ids"])
    return CellResult(**known)
