"""Validates what a sandboxed process sends: its steps, and its result or one error sentence."""

from __future__ import annotations

import re
import signal
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import MethodError, TraceError
from engine.messages import Message
from engine.sandbox.folder import CODE
from engine.sandbox.return_value import MAX_IDS
from engine.settings import SETTINGS
from engine.trace.checks import MAX_STEPS
from engine.trace.json_io import step_from_dict
from engine.trace.records import Step
from engine.trace.value_types import JsonObject

_MEMORY = re.compile(
    r"can't allocate memory|out of memory|bad_alloc|Cannot allocate", re.IGNORECASE
)
_MAX_NOTES = 8
_UNEXPECTED = re.compile(r"generate\(\) got an unexpected keyword argument '(\w+)'")


@dataclass(frozen=True)
class Outcome:
    """Result of a run that returned ids."""

    sequences: tuple[tuple[int, ...], ...]
    """New ids of every sequence, padding included."""
    passes: int
    """Number of observed forward passes."""
    notes: tuple[str, ...] = ()


class MessageReader:
    """Turns a sandboxed process's messages into records; trusts none of them.

    Args:
        vocab_size: vocabulary size of the model.
    """

    def __init__(self, vocab_size: int) -> None:
        self._vocab_size = vocab_size
        self._steps = 0
        self._lengths: dict[int, int] = {}

    def read_step(self, message: JsonObject) -> Step:
        """Return the step of a message.

        Raises:
            MethodError: it is malformed, does not continue the earlier steps, or has unknown ids.
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
            raise MethodError(
                "The method made more than {most} steps and was ended.",
                most=f"{MAX_STEPS:,}",
            )
        length = self._lengths.get(step.sequence, 0)
        if step.sequence < 0 or not 0 <= step.keep <= length or not self._has_known_ids(ids):
            raise MethodError(
                "The method reported an impossible step: it keeps {keep} tokens of {length}, and "
                "the model's ids go from 0 to {last}.",
                keep=step.keep,
                length=length,
                last=self._vocab_size - 1,
            )
        self._lengths[step.sequence] = step.keep + len(step.emit)
        return step

    def read_outcome(self, end: Any) -> Outcome:
        """Return the result in the last message.

        Args:
            end: the message of ``host``, or anything a hostile method wrote instead.

        Raises:
            MethodError: the method raised, or returned something other than ids.
        """
        try:
            if "error" in end:
                raise MethodError(_format_error(end["error"]))
            if "refused" in end:
                raise MethodError(_to_one_line(str(end["refused"])))
            start, passes, rows = end["start"], end["passes"], end["sequences"]
            sound = all(type(n) is int and n >= 0 for n in (start, passes))
            if (
                not sound
                # Before the ids are looked at: a hostile method may send any number of them.
                or sum(map(len, rows)) > MAX_IDS
                or not all(map(self._has_known_ids, rows))
            ):
                raise ValueError
            notes = tuple(_to_one_line(str(note)) for note in end["notes"][:_MAX_NOTES])
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

    def _has_known_ids(self, ids: Iterable[object]) -> bool:
        # Not isinstance: a bool is an int too.
        return all(type(i) is int and 0 <= i < self._vocab_size for i in ids)


def _format_error(error: Mapping[str, object]) -> str:
    """Return one sentence with the file and line in the method's source."""
    fault = _describe_error(error)
    if not error["file"]:
        return Message("{fault}.", fault=fault)
    return Message(
        "{place}, line {line}: {fault}.",
        place=_to_one_line(f"{CODE}/{error['file']}"),
        line=_to_one_line(str(error["line"]))[:20],
        fault=fault,
    )


def _describe_error(error: Mapping[str, Any]) -> str:
    kind, text = _to_one_line(str(error["kind"]))[:80], _to_one_line(str(error["text"]))
    unexpected = _UNEXPECTED.search(text)
    if kind == "TypeError" and unexpected and not error["file"]:
        return Message(
            "The method's generate does not take {unexpected}; write **kwargs at the end of its "
            "signature for what it does not need",
            unexpected=unexpected[1],
        )
    if kind == "MemoryError" or _MEMORY.search(text):
        return Message(
            "the method needed more memory than the {most} that it may take beyond its model",
            most=f"{SETTINGS.max_method_memory_gb:g} GB",
        )
    if kind == "SystemExit":
        return Message("the method called sys.exit({text})", text=text)
    return f"{kind}{': ' if text else ''}{text.rstrip('.')}"


def _to_one_line(text: str) -> str:
    """Return a text on one line of at most 300 characters; a message that fits stays one."""
    line = " ".join(text.split())
    if len(line) > 300:
        return line[:299] + "…"
    return text if line == text else line


def describe_exit(status: int) -> str:
    """Return how a process ended, from its exit status."""
    if status < 0:
        if -status == signal.SIGXCPU:
            return "The method used too much of the processor and was ended."
        if -status == signal.SIGKILL:
            return (
                "The method's process was killed, by the system for want of memory or from outside."
            )
        # Real-time signals have numbers only.
        named = {int(known): known.name for known in signal.Signals}
        signal_name = named.get(-status, -status)
        return Message("The method ended its process by the signal {signal}.", signal=signal_name)
    return Message("The method ended its process with status {status}.", status=status)


def collect_steps(run: Generator[Step, None, Outcome]) -> tuple[list[Step], Outcome]:
    """Run a method to its end; return its steps and its outcome.

    Raises:
        Cancelled, MethodError: as ``SandboxProcess.run``.
    """
    steps: list[Step] = []
    while True:
        try:
            steps.append(next(run))
        except StopIteration as stop:
            return steps, stop.value
