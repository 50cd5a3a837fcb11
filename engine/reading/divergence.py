"""Where several runs of one prompt part, and what each saw there. Plain traces, no torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from engine.trace.details import BeamDetail, BeamNode, DraftDetail
from engine.trace.records import Candidate, Step, Trace

Token = int | str


@dataclass(frozen=True)
class Side:
    """What one run did at the place of parting."""

    token_id: int | None
    """The token it wrote there, None when its text had ended."""
    step: int | None
    """Index of the step that decided it."""
    candidates: tuple[Candidate, ...] = ()
    """Recorded candidates of that place; empty when the step recorded another place."""
    drafted: tuple[float, float | None, str] | None = None
    """For a drafted token: the target's probability, the draft's, and what became of it."""
    pool: tuple[BeamNode, ...] = ()
    """For a search with beams: all candidates of all beams at this depth, the best first."""


@dataclass(frozen=True)
class Divergence:
    """The first position at which not all runs wrote the same token."""

    position: int
    """0 is the first new token; everything before it is common to all."""
    sides: tuple[Side, ...]


@dataclass(frozen=True)
class Edit:
    """A stretch of the token difference of two outputs: [a0, a1) against [b0, b1)."""

    kind: str
    """equal, replace, delete (only in a) or insert (only in b)."""
    a0: int
    a1: int
    b0: int
    b1: int


def tokens_of(trace: Trace, *, by_id: bool) -> list[Token]:
    """Return the first output as ids, or as pieces where vocabularies differ."""
    ids = trace.outputs[0].token_ids if trace.outputs else ()
    return list(ids) if by_id else [trace.pieces.get(i, f"#{i}") for i in ids]


def same_ids(traces: Sequence[Trace]) -> bool:
    """Return whether ids of all runs can be compared: the prompt was cut alike by one vocabulary."""
    first = traces[0]
    return all(
        t.model.vocab_size == first.model.vocab_size and t.prompt_ids == first.prompt_ids
        for t in traces
    )


def first_divergence(traces: Sequence[Trace]) -> Divergence | None:
    """Return the first place where the runs' first outputs differ, None when they are equal.

    Args:
        traces: two or more runs of one prompt.
    """
    by_id = same_ids(traces)
    outputs = [tokens_of(trace, by_id=by_id) for trace in traces]
    common, part = shared(outputs, [True] * len(outputs))
    return Divergence(common, tuple(side_of(trace, common) for trace in traces)) if part else None


def shared(texts: Sequence[Sequence[Token]], ended: Sequence[bool]) -> tuple[int, bool]:
    """Return how many tokens all texts begin with alike, and whether they part there.

    Args:
        texts: two or more.
        ended: whether each is whole; one that goes on may still agree with the others.
    """
    for position in range(max(map(len, texts))):
        there = [position < len(text) for text in texts]
        here = {
            text[position] if known else None
            for text, known, whole in zip(texts, there, ended, strict=True)
            if known or whole
        }
        if len(here) > 1:
            return position, True
        if not all(known or whole for known, whole in zip(there, ended, strict=True)):
            return position, False
    return max(map(len, texts)), False


def side_of(trace: Trace, position: int) -> Side:
    """Return what a run did at a position of its first output."""
    ids = trace.outputs[0].token_ids if trace.outputs else ()
    if position >= len(ids):
        return Side(None, None)
    depth = trace.steps_of(0)[position : position + 1]
    if depth and isinstance(depth[0].detail, BeamDetail):
        pool = sorted(depth[0].detail.pool, key=lambda node: -node.sum_logprobs)
        return Side(ids[position], depth[0].index, pool=tuple(pool))
    step = step_that_wrote(trace, position)
    if step is None:
        return Side(ids[position], None)
    offset = position - step.keep
    # The candidates of a step belong to the last token it wrote.
    if offset == len(step.emit) - 1:
        return Side(ids[position], step.index, step.candidates)
    if isinstance(step.detail, DraftDetail) and offset < len(step.detail.tokens):
        token = step.detail.tokens[offset]
        return Side(ids[position], step.index, drafted=(token.p, token.q, token.status))
    return Side(ids[position], step.index)


def step_that_wrote(trace: Trace, position: int) -> Step | None:
    """Return the last step that wrote a position of the first output: beams may rewrite it."""
    found = None
    for step in trace.steps_of(0):
        if step.keep <= position < step.keep + len(step.emit):
            found = step
    return found


def difference(a: Sequence[Token], b: Sequence[Token]) -> tuple[Edit, ...]:
    """Return the token difference of two outputs as stretches that cover both."""
    matcher = SequenceMatcher(None, a, b, autojunk=False)
    return tuple(Edit(*code) for code in matcher.get_opcodes())
