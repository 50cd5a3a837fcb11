"""Tables as CSV that a spreadsheet reads as it was written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# A spreadsheet may run a cell that starts with one of these as a formula.
_ACTIVE = ("=", "+", "-", "@", "\t", "\r", "\n")


def to_csv(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table: a line of names, then one of values for each row.

    Every text is in quotes, as a reader may take any kind of line break in it for a new row. None
    and "" are empty cells.
    """
    lines = [",".join(columns), *(",".join(map(_format_cell, row)) for row in rows)]
    return "".join(f"{line}\n" for line in lines)


def _format_cell(value: object) -> str:
    if value is None or value == "":
        return ""
    if not isinstance(value, str):
        return str(value)
    text = f"'{value}" if value.startswith(_ACTIVE) else value
    return '"' + text.replace('"', '""') + '"'
