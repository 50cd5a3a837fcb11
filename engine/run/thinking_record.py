"""The record of the thinking sections of finished texts: see ``ThinkingSection``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.loops.thinking import make_thinking_reader
from engine.processors.thinking_budget import ThinkingBudgetLogitsProcessor
from engine.trace.thinking_records import Thinking, ThinkingSection

if TYPE_CHECKING:
    from engine.run.preparation import Prepared


def record_thinking(run: Prepared, texts: Sequence[Sequence[int]]) -> Thinking | None:
    """Return the thinking sections of a run's texts; None where no text has one and no budget is set.

    Args:
        run: the prepared run.
        texts: new ids of every output.
    """
    target, prompt = run.target, run.prompt_ids
    written = len(run.continued_ids)
    reader = next(iter(run.thinking), None) or make_thinking_reader(target, prompt, written)
    if reader is None:
        return None
    # A decoder of its own begins with one token, whichever it is.
    before = [0] if target.is_encoder_decoder else prompt
    found = tuple(_record_text(reader, before, ids) for ids in texts)
    asked = run.thinking or any(found)
    return Thinking(*reader.marks, found, reader.forced) if asked else None


def _record_text(
    reader: ThinkingBudgetLogitsProcessor, before: Sequence[int], ids: Sequence[int]
) -> tuple[ThinkingSection, ...]:
    whole, first = [*before, *ids], len(before)
    return tuple(
        ThinkingSection(
            max(start - first, 0),
            end - first,
            closed,
            _find_first_forced(reader, whole, first, (start, end)),
        )
        for start, end, closed in reader.find_sections(whole)
        # A text that is continued may have ended a section before.
        if end > first
    )


def _find_first_forced(
    reader: ThinkingBudgetLogitsProcessor,
    whole: Sequence[int],
    first: int,
    section: tuple[int, int],
) -> int | None:
    start, end = section
    cut = reader.find_cut(whole[:end], start)
    # A section that ends by itself within its budget has no token after it.
    return None if cut is None or cut >= end else max(cut - first, 0)
