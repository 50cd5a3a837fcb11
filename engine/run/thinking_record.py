"""The record of the thinking sections of finished texts: see ``ThinkingSection``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.loops.thinking import find_thinking_marks
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
    reader = next(iter(run.thinking), None) or _make_reader(run)
    if reader is None:
        return None
    found = tuple(_record_text(reader, _ids_before(run), ids) for ids in texts)
    asked = run.thinking or any(found)
    return Thinking(*reader.marks, found, reader.forced) if asked else None


def _ids_before(run: Prepared) -> list[int]:
    """Return the ids before a text, as a processor sees them."""
    # Its decoder begins with one token, whichever it is.
    return [0] if run.target.is_encoder_decoder else list(run.prompt_ids)


def _make_reader(run: Prepared) -> ThinkingBudgetLogitsProcessor | None:
    """Return what finds the sections of a run without a budget; None if its model has none."""
    tokenizer = run.target.tokenizer
    prompt = () if run.target.is_encoder_decoder else run.prompt_ids
    marks = None if tokenizer is None else find_thinking_marks(tokenizer, prompt)
    if marks is None:
        return None
    start = len(_ids_before(run)) - len(run.continued_ids)
    return ThinkingBudgetLogitsProcessor(tokenizer, marks, start)


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
