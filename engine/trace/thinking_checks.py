"""Validation of the record of a trace's thinking sections."""

from __future__ import annotations

from engine.errors import TraceError
from engine.trace.records import Trace
from engine.trace.thinking_records import ThinkingSection


def check_thinking(trace: Trace) -> None:
    """Check that every thinking section is a part of its output, after the one before it.

    Raises:
        TraceError: a field is invalid; the message names it.
    """
    thinking = trace.thinking
    if thinking is None:
        return
    if len(thinking.texts) != len(trace.outputs):
        raise TraceError(
            "trace.thinking lists {n} texts, and there are {outputs}.",
            n=len(thinking.texts),
            outputs=len(trace.outputs),
        )
    for number, (sections, output) in enumerate(zip(thinking.texts, trace.outputs, strict=True)):
        before = 0
        for section in sections:
            if not _is_possible(section, before, len(output.token_ids)):
                raise TraceError(
                    "trace.thinking.texts[{number}] has a section that is no part of its text.",
                    number=number,
                )
            before = section.end


def _is_possible(section: ThinkingSection, before: int, length: int) -> bool:
    forced = section.start if section.forced is None else section.forced
    return before <= section.start <= forced <= section.end <= length
