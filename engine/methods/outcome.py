"""What came of a method's run, or one sentence about why nothing did."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from engine.errors import MethodError
from engine.methods.folder import CODE
from engine.settings import SETTINGS

_MEMORY = re.compile(
    r"can't allocate memory|out of memory|bad_alloc|Cannot allocate", re.IGNORECASE
)
_UNEXPECTED = re.compile(r"generate\(\) got an unexpected keyword argument '(\w+)'")


@dataclass(frozen=True)
class Outcome:
    """The end of a run that returned ids."""

    sequences: tuple[tuple[int, ...], ...]
    """Of every sequence the new ids, padding and all."""
    passes: int
    """Forward passes that were seen."""
    notes: tuple[str, ...] = ()


def outcome_of(end: Any) -> Outcome:
    """Return what the last message of a process says.

    Args:
        end: as ``host`` made it, or whatever a hostile method wrote in its place.

    Raises:
        MethodError: the method raised, or returned something else than ids.
    """
    try:
        if "error" in end:
            raise MethodError(_sentence(end["error"]))
        if "refused" in end:
            raise MethodError(str(end["refused"])[:400])
        start, passes = int(end["start"]), int(end["passes"])
        rows = tuple(tuple(int(i) for i in row)[start:] for row in end["sequences"])
        notes = tuple(str(note)[:400] for note in end["notes"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise MethodError("The method's process ended with a message that says nothing.") from None
    if passes == 0 and any(rows):
        notes = (*notes, "No forward pass of the model was seen: the tokens came from elsewhere.")
    return Outcome(rows, passes, notes)


def _sentence(error: dict[str, Any]) -> str:
    """Return one sentence with the place in the method's own source."""
    kind, text = str(error["kind"])[:80], _one_line(str(error["text"]))
    place = f"{CODE}/{error['file']}, line {error['line']}: " if error["file"] else ""
    unexpected = _UNEXPECTED.search(text)
    if kind == "TypeError" and unexpected and not place:
        return (
            f"The method's generate does not take {unexpected[1]}; write **kwargs at the end of its"
            " signature for what it does not need."
        )
    if kind == "MemoryError" or _MEMORY.search(text):
        most = f"{SETTINGS.max_method_memory_gb:g} GB"
        return f"{place}the method needed more memory than the {most} that it may take beyond its model."
    if kind == "SystemExit":
        return f"{place}the method called sys.exit({text})."
    return f"{place}{kind}{': ' if text else ''}{text.rstrip('.')}."


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 300 else line[:299] + "…"
