"""A recorded beam search under another length penalty. Plain arithmetic.

Running beams depend on sums of log-probabilities alone, so the recorded pools hold for every
penalty. Only the ranking of finished hypotheses and the stopping step change.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.errors import TraceError
from engine.messages import Message
from engine.trace.details import BeamDetail, BeamNode
from engine.trace.records import Trace

_FINISHED_FATES = ("finished", "finished_worse")


@dataclass(frozen=True)
class RescoredHypothesis:
    """A recorded hypothesis under the new penalty."""

    node_id: int
    sum_logprobs: float
    length: int
    """New tokens, end-of-sequence included."""
    score: float
    """sum_logprobs / length ** length_penalty."""


@dataclass(frozen=True)
class Rescoring:
    """The new ranking, and whether the search itself would differ."""

    length_penalty: float
    ranking: tuple[RescoredHypothesis, ...]
    """Best first."""
    ends_at: int | None
    """Step after which the search would stop; None if beyond the record."""
    rerun: str
    """Why the search must be run again for an exact result, or empty."""


@dataclass
class _Group:
    size: int
    scores: list[float] = field(default_factory=list)
    done_at: int | None = None

    def add(self, score: float) -> None:
        self.scores = sorted([*self.scores, score], reverse=True)[: self.size]


def rescore_hypotheses(trace: Trace, length_penalty: float) -> Rescoring:
    """Rank the recorded hypotheses with another length penalty.

    Args:
        trace: a finished run of a beam strategy.
        length_penalty: finite.

    Raises:
        TraceError: the trace has no beam search.
    """
    details = [detail for _, detail in trace.details(BeamDetail)]
    if not details:
        raise TraceError("The trace has no beam search to rescore.")
    found = recorded_hypotheses(details)
    if _is_group_search(trace):
        # That scorer returns the last of equal hypotheses, from the last group.
        found = sorted(found, key=lambda pair: pair[0].group)[::-1]
    lines = [
        RescoredHypothesis(
            n.node_id, n.sum_logprobs, length, n.sum_logprobs / length**length_penalty
        )
        for n, length in found
    ]
    ends_at = _stop_step(trace, details, length_penalty)
    last = len(details) - 1
    rerun = ""
    if ends_at is None:
        rerun = Message(
            "With this penalty the search would not have stopped after step {step}.", step=last + 1
        )
    elif ends_at < last:
        rerun = Message(
            "With this penalty the search would have stopped after step {step}.", step=ends_at + 1
        )
    ranking = tuple(sorted(lines, key=lambda line: -line.score))
    return Rescoring(length_penalty, ranking, ends_at, rerun)


def recorded_hypotheses(details: list[BeamDetail]) -> list[tuple[BeamNode, int]]:
    """Return every recorded hypothesis that could be returned, with its length."""
    on_heap = {h.node_id for h in details[-1].heap}
    return [
        (node, index + 1)
        for index, detail in enumerate(details)
        for node in detail.pool
        if node.fate in _FINISHED_FATES or node.node_id in on_heap
    ]


def _stop_step(trace: Trace, details: list[BeamDetail], penalty: float) -> int | None:
    """Return the step at which the search would stop, None if beyond the record."""
    count = int(trace.config.get("num_beam_groups") or 1)
    size = max(1, int(trace.config["num_beams"]) // count)
    # Group searches compare with the pool's best, ended candidates included.
    older = _is_group_search(trace)
    groups = [_Group(size) for _ in range(count)]
    for index, detail in enumerate(details):
        for number, group in enumerate(groups):
            pool = [node for node in detail.pool if node.group == number]
            if pool and group.done_at is None:
                _advance_group(group, pool, index, trace, penalty, older=older)
    last = len(details) - 1
    if not any(node.fate == "kept" for node in details[-1].pool) or _is_at_max_length(trace, last):
        for group in groups:
            group.done_at = last if group.done_at is None else group.done_at
    ends = [group.done_at for group in groups if group.done_at is not None]
    if len(ends) < count:
        return None
    # A group that stops earlier stops penalising the others: the record ends there.
    early = [end for i, end in enumerate(ends) if end < _recorded_end(details, i)]
    return min(early, default=max(ends))


def _is_group_search(trace: Trace) -> bool:
    """Return whether the trace is a group or constrained search with its own scorer."""
    return int(trace.config.get("num_beam_groups") or 1) > 1 or bool(
        trace.config.get("force_words_ids")
    )


def _advance_group(
    group: _Group, pool: list[BeamNode], index: int, trace: Trace, penalty: float, *, older: bool
) -> None:
    length, early = index + 1, trace.config["early_stopping"]
    # One beam is greedy search, which ends at its first end-of-sequence.
    if trace.config["num_beams"] == 1:
        early = True
    for node in pool:
        if node.fate in _FINISHED_FATES:
            group.add(node.sum_logprobs / length**penalty)
    if len(group.scores) < group.size:
        return
    open_nodes = [n.sum_logprobs for n in pool if older or n.fate == "kept"]
    longest = trace.config["max_new_tokens"] if early == "never" and penalty > 0 else length
    best = max(open_nodes, default=float("-inf")) / longest**penalty
    if early is True or group.scores[-1] >= best:
        group.done_at = index


def _recorded_end(details: list[BeamDetail], number: int) -> int:
    return max(i for i, d in enumerate(details) if any(n.group == number for n in d.pool))


def _is_at_max_length(trace: Trace, last: int) -> bool:
    return last + 1 >= trace.config["max_new_tokens"]
