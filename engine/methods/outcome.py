"""What came of a method's run, or one sentence about why nothing did."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.errors import MethodError, TraceError
from engine.methods.folder import CODE
from engine.methods.returned import MAX_IDS
from engine.settings import SETTINGS
from engine.trace.checks import MAX_STEPS
from engine.trace.json_io import step_from_dict
from engine.trace.records import Step

_MEMORY = re.compile(
    r"can't allocate memory|out of memory|bad_alloc|Cannot allocate", re.IGNORECASE
)
_MAX_NOTES = 8
_UNEXPECTED = re.compile(r"generate\(\) got an unexpected keyword argument '(\w+)'")


@dataclass(frozen=True)
class Outcome:
    """The end of a run that returned ids."""

    sequences: tuple[tuple[int, ...], ...]
    """Of every sequence the new ids, padding and all."""
    passes: int
    """Forward passes that were seen."""
    notes: tuple[str, ...] = ()


class Hearing:
    """Makes records of what a process says that foreign code may speak for.

    Args:
        vocab_size: of the model whose ids are meant.
    """

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._steps = 0
        self._lengths: dict[int, int] = {}

    def step(self, message: dict[str, Any]) -> Step:
        """Return the step of a message.

        Raises:
            MethodError: it is none, does not go on from those before, or has ids that the model has not.
        """
        try:
            step = step_from_dict(message["step"])
        except (KeyError, TraceError, RecursionError):
            raise MethodError(
                "The method wrote into the pipe of its messages and was ended."
            ) from None
        ids = (*step.emit, *(c.token_id for c in step.candidates))
        self._steps += 1
        if self._steps > MAX_STEPS:
            raise MethodError(f"The method made more than {MAX_STEPS:,} steps and was ended.")
        length = self._lengths.get(step.sequence, 0)
        if step.sequence < 0 or not 0 <= step.keep <= length or not self._known(ids):
            raise MethodError(
                f"The method told of a step that cannot be: it keeps {step.keep} tokens of"
                f" {length}, and the model's ids go from 0 to {self._vocab_size - 1}."
            )
        self._lengths[step.sequence] = step.keep + len(step.emit)
        return step

    def outcome(self, end: Any) -> Outcome:
        """Return what the last message says.

        Args:
            end: as ``host`` made it, or whatever a hostile method wrote in its place.

        Raises:
            MethodError: the method raised, or returned something else than ids.
        """
        try:
            if "error" in end:
                raise MethodError(_sentence(end["error"]))
            if "refused" in end:
                raise MethodError(_one_line(str(end["refused"])))
            start, passes, rows = end["start"], end["passes"], end["sequences"]
            sound = all(type(n) is int and n >= 0 for n in (start, passes))
            if not sound or sum(map(len, rows)) > MAX_IDS or not all(map(self._known, rows)):
                raise ValueError
            notes = tuple(_one_line(str(note)) for note in end["notes"][:_MAX_NOTES])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise MethodError(
                "The method's process ended with a message that says nothing."
            ) from None
        new = tuple(tuple(row[start:]) for row in rows)
        if passes == 0 and any(new):
            notes = (
                *notes,
                "No forward pass of the model was seen: the tokens came from elsewhere.",
            )
        return Outcome(new, passes, notes)

    def _known(self, ids: Iterable[Any]) -> bool:
        return all(type(i) is int and 0 <= i < self._vocab_size for i in ids)


def _sentence(error: dict[str, Any]) -> str:
    """Return one sentence with the place in the method's own source."""
    kind, text = _one_line(str(error["kind"]))[:80], _one_line(str(error["text"]))
    place = _one_line(f"{CODE}/{error['file']}, line {error['line']}") if error["file"] else ""
    place += ": " if place else ""
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
