"""Runs that were seen from outside, made by hand: a text of letters, and the passes that wrote it."""

from __future__ import annotations

from typing import Any

from engine.trace.details import ForwardDetail, ForwardPass
from engine.trace.records import Candidate, ModelInfo, Output, Step, Timing, Trace, replay_ids

PIECES = {i: f" {chr(97 + i)}" for i in range(26)}
PROMPT = (0, 1, 2)
PASS_S = 0.25


def forward(
    read: int, cached: int, length: int, dropped: int = 0, rows: int = 1, *, aside: bool = False
) -> dict[str, Any]:
    """Return the fields of a pass but its time."""
    counts = {"rows": rows, "read": read, "cached": cached, "dropped": dropped}
    return counts | {"length": length, "aside": aside}


def seen(*steps: tuple[int, tuple[int, ...], list[dict[str, Any]], int]) -> Trace:
    """Return the run of some steps: (keep, emit, passes, declared); a pass ends every PASS_S.

    A step that emits one token has it as a candidate.
    """
    made: list[Step] = []
    count = 0
    for index, (keep, emit, passes, declared) in enumerate(steps):
        timed = []
        for fields in passes:
            count += 1
            timed.append(ForwardPass(**fields, elapsed_s=count * PASS_S))
        candidates = (Candidate(emit[0], -0.1, -0.1, 0),) if len(emit) == 1 else ()
        detail = ForwardDetail(tuple(timed), declared)
        made.append(
            Step(
                index,
                keep,
                emit,
                candidates,
                detail=detail,
                forward_passes=len(timed),
                elapsed_s=count * PASS_S,
            )
        )
    ids = tuple(replay_ids(tuple(made)))
    text = "".join(PIECES[i] for i in ids)
    return Trace(
        "custom",
        {"max_new_tokens": 24},
        ModelInfo("letters", vocab_size=len(PIECES)),
        {},
        0,
        "".join(PIECES[i] for i in PROMPT),
        PROMPT,
        PIECES,
        tuple(made),
        (Output(ids, text, "length"),),
        Timing(count * PASS_S),
    )


def rolled_back() -> Trace:
    """Return a run in which two tokens are taken back between two passes, and one more at a decision."""
    return seen(
        (0, (3,), [forward(3, 0, 3)], 4),
        (1, (4,), [forward(1, 3, 4)], 0),
        (2, (5,), [forward(1, 4, 5)], 0),
        (1, (6,), [forward(1, 5, 6), forward(1, 3, 4, 2)], 0),
        (2, (7, 8), [forward(1, 4, 5)], 0),
        (3, (9,), [forward(2, 5, 7)], 0),
        (4, (10,), [forward(1, 6, 7, 1)], 5),
    )


def beside() -> Trace:
    """Return a run of two rows that guesses before its first pass, compares, and returns another text."""
    return seen(
        (0, (3,), [], 0),
        (1, (4,), [forward(4, 0, 4), forward(2, 0, 4, rows=2, aside=True)], 0),
        (2, (5,), [forward(1, 4, 5), forward(0, 0, 5, rows=0, aside=True)], 0),
        (1, (6, 7), [forward(1, 5, 6)], 0),
    )


def elsewhere() -> Trace:
    """Return a run without a forward pass."""
    return seen((0, (3, 4), [], 0))


def plain(tokens: int) -> Trace:
    """Return a run of one pass a token."""
    first = (0, (3,), [forward(3, 0, 3)], 0)
    more = ((i, (3 + i % 20,), [forward(1, 2 + i, 3 + i)], 0) for i in range(1, tokens))
    return seen(first, *more)
