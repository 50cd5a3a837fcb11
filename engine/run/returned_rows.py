"""What generate() returns, as the new tokens of each text."""

from __future__ import annotations

import math
from typing import Any

from engine.loops.recorder import round_decimals
from engine.messages import Message
from engine.run.preparation import Prepared


def extract_sequences(
    returned: Any, run: Prepared, eos: set[int]
) -> tuple[list[list[int]], list[float | None]]:
    """Return the new tokens of every sequence without padding, and the loop's scores."""
    start = 1 if run.target.is_encoder_decoder else len(run.prompt_ids)
    lengths = getattr(returned, "lengths", None)
    rows = [row[start:] for row in getattr(returned, "sequences", returned).tolist()]
    # A beam's padding may equal the end token, so the loop reports each sequence's length.
    rows = (
        [cut_at_eos(row, eos) for row in rows]
        if lengths is None
        else [row[:length] for row, length in zip(rows, lengths, strict=True)]
    )
    scores = getattr(returned, "sequences_scores", None)
    if scores is None:
        return rows, [None] * len(rows)
    return rows, [round_decimals(s) if math.isfinite(s) else None for s in scores.tolist()]


def format_missing_sequences(scores: list[float | None], wanted: int) -> tuple[str, ...]:
    """Return a note if a search found fewer texts than requested; unranked loops never do."""
    # Impossible sequences come back with an infinite score, which was turned into None.
    ranked = sum(score is not None for score in scores)
    found = ranked or len(scores)
    if found == wanted:
        return ()
    template = (
        "The search found {found} of the {wanted} sequences that were asked for; every other was "
        "impossible and only fills up the number."
        if len(scores) == wanted
        else "The search found {found} of the {wanted} sequences that were asked for; every other "
        "was impossible."
    )
    return (Message(template, found=found, wanted=wanted),)


def cut_at_eos(ids: list[int], eos: set[int]) -> list[int]:
    """Return ids up to and including the first that ends a text."""
    end = next((i + 1 for i, token_id in enumerate(ids) if token_id in eos), len(ids))
    return ids[:end]
