"""Validation of masked diffusion: places are hidden until they are written, and then stay."""

from __future__ import annotations

from engine.errors import TraceError
from engine.messages import Message
from engine.trace.filling import FillDetail
from engine.trace.records import Step, Trace, replay_ids

_MAX_LENGTH = 100_000


def check_filling(trace: Trace) -> None:
    """Check the passes of masked diffusion against each other and against the text.

    Raises:
        TraceError: a pass guesses a place that is not hidden, has impossible numbers, or emits
            other tokens than it wrote; the message names the step.
    """
    passes = trace.details(FillDetail)
    # A question about one step comes with the earlier steps, but without their details.
    whole = len(passes) == len(trace.steps)
    known: dict[int, int] = {}
    for number, (step, detail) in enumerate(passes):
        where = Message("Step {step}", step=step.index)
        if not number:
            known = dict(detail.given)
        _check_pass(where, detail, passes[0][1], set(known))
        if not whole:
            continue
        known |= {guess.position: guess.token_id for guess in detail.written}
        _check_text(where, trace.steps[: step.index + 1], known)


def _check_pass(where: str, detail: FillDetail, first: FillDetail, known: set[int]) -> None:
    if (detail.length, detail.given) != (first.length, first.given):
        raise TraceError("{where} fills another text than the first pass.", where=where)
    places = range(detail.length)
    if detail.length > _MAX_LENGTH or not all(place in places for place, _ in detail.given):
        raise TraceError("{where} fills a text of {n} tokens.", where=where, n=detail.length)
    hidden = [guess.position for guess in detail.guesses]
    free = all(place in places and place not in known for place in hidden)
    if not free or hidden != sorted(set(hidden)):
        raise TraceError("{where} guesses a place that is not hidden.", where=where)
    if detail.block < 0 or not all(0 <= guess.entropy < 1e6 for guess in detail.guesses):
        raise TraceError("{where} has a negative entropy, cost or time.", where=where)
    if detail.report and not all(
        measure.passes >= 0 and 0 < measure.perplexity < 1e308
        for measure in (detail.report.filled, detail.report.plain)
    ):
        raise TraceError("{where} has a negative entropy, cost or time.", where=where)


def _check_text(where: str, steps: tuple[Step, ...], known: dict[int, int]) -> None:
    text = replay_ids(steps)
    if any(known.get(place) != token_id for place, token_id in enumerate(text)):
        raise TraceError("{where} emits other tokens than it wrote.", where=where)
