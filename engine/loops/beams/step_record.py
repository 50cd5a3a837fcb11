"""Shared by the beam loops: node numbers, finished hypotheses, and the record of a step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.errors import DecodeError
from engine.loops.forward import Forward
from engine.loops.recorder import Recorder, Row, Stages, make_observation, round_decimals
from engine.models.model_types import Processors
from engine.trace.details import BeamDetail, BeamNode, Hypothesis
from engine.trace.records import Step

PROMPT_NODE = -1
IMPOSSIBLE_SUM = -1e8
"""Sums below this belong to placeholders (-1e9) or removed tokens (-inf)."""
NO_OPEN_BEAM = "No open beam may go on: every token that could follow is forbidden."
NO_BETTER_BEAM = "No open beam can beat the worst of the finished hypotheses any more."


class BeamTree:
    """Numbers the nodes of a search and returns their paths."""

    def __init__(self) -> None:
        self.parents: list[int] = []
        self.tokens: list[int] = []

    def add(self, parent: int, token_id: int) -> int:
        """Add a node and return its number."""
        self.parents.append(parent)
        self.tokens.append(token_id)
        return len(self.parents) - 1

    def path(self, node: int) -> list[int]:
        """Return the new tokens from the prompt to a node."""
        tokens: list[int] = []
        while node != PROMPT_NODE:
            tokens.append(self.tokens[node])
            node = self.parents[node]
        return tokens[::-1]


@dataclass(frozen=True)
class FinishedBeam:
    """A finished hypothesis inside a loop."""

    score: float
    sum_logprobs: float
    length: int
    """New tokens, end-of-sequence included."""
    node: int
    ids: tuple[int, ...]
    """New tokens."""
    group: int = 0


@dataclass
class BeamOutput:
    """The return value of a beam loop for generate()."""

    sequences: torch.Tensor
    """(num_return_sequences, prompt + longest), padded."""
    sequences_scores: torch.Tensor
    """(num_return_sequences,) sum of log-probabilities / length ** length_penalty; -inf for
    placeholders."""
    lengths: tuple[int, ...]
    """New tokens of each sequence, padding not counted."""


def pack_output(prompt: torch.Tensor, best: Sequence[FinishedBeam], pad_id: int) -> BeamOutput:
    """Pack finished hypotheses, best first, into one padded tensor after the (1, length) prompt."""
    longest = max(len(hypothesis.ids) for hypothesis in best)
    rows = [[*h.ids, *[pad_id] * (longest - len(h.ids))] for h in best]
    # Padding is needed for the tensor only; ``lengths`` says where each text ends.
    new = torch.tensor(rows, dtype=prompt.dtype, device=prompt.device)
    return BeamOutput(
        torch.cat([prompt.expand(len(best), -1), new], dim=-1),
        torch.tensor([hypothesis.score for hypothesis in best], device=prompt.device),
        tuple(len(hypothesis.ids) for hypothesis in best),
    )


class StepWriter:
    """Turns the decisions of a search into Steps whose text is the best hypothesis so far.

    Args:
        recorder: provides rows and elapsed time.
        forward: counts the forward passes.

    Attributes:
        tree: every node of the search.
        shown: the text of the last Step.
    """

    def __init__(self, recorder: Recorder, forward: Forward) -> None:
        self.recorder, self.forward = recorder, forward
        self.tree = BeamTree()
        self.shown: list[int] = []
        self._index, self._passes = 0, 0

    def process(
        self, logits: torch.Tensor, ids: torch.Tensor, processors: Processors
    ) -> ProcessedBeams:
        """Run the processors over the log-probabilities of (beams, vocab) raw logits."""
        inputs = torch.log_softmax(logits, dim=-1)
        # Beam searches process log-probabilities; a repetition penalty acts otherwise on logits.
        scores, stages = self.recorder.apply_processors(inputs, ids, processors)
        return ProcessedBeams(logits, inputs, scores, stages)

    def check_finite(self, logits: torch.Tensor) -> None:
        """Refuse (beams, vocab) raw logits with a NaN or infinite maximum, which ranking would hide.

        A single token may have a logit of -inf.

        Raises:
            DecodeError: naming the step.
        """
        if not bool(torch.isfinite(logits.amax(-1)).all()):
            raise DecodeError(
                "The model's raw logits are not finite at step {step}.", step=self._index + 1
            )

    def write(self, decision: SearchDecision, heap: Sequence[FinishedBeam], test: StopTest) -> Step:
        """Return the Step of a decision.

        Args:
            decision: the pool and what it was chosen from.
            heap: finished hypotheses, best first.
            test: both sides of the stopping test, and why the search ends, if it does.

        Raises:
            DecodeError: the pool is empty, or the search ends without a hypothesis.
        """
        leader = best_kept_node(decision.pool)
        if test.stop_reason and not heap:
            raise DecodeError("No text meets all requirements; allow more tokens.")
        best = self.tree.path(leader.node_id)
        # The text that is shown is the best so far: an open beam may be ahead of every finished one.
        if heap and (test.stop_reason or heap[0].score >= leader.score):
            best = list(heap[0].ids)
        row = self._record_row(decision, leader)
        keep = 0
        while keep < min(len(best), len(self.shown)) and best[keep] == self.shown[keep]:
            keep += 1
        self.shown = best
        passes, self._passes = self.forward.passes - self._passes, self.forward.passes
        self._index += 1
        return Step(
            index=self._index - 1,
            keep=keep,
            emit=tuple(best[keep:]),
            candidates=row.candidates,
            stages=row.stages,
            detail=_make_detail(decision, heap, test),
            logsumexp=row.logsumexp,
            entropy=row.entropy,
            forward_passes=passes,
            elapsed_s=decision.elapsed_s,
        )

    def _record_row(self, decision: SearchDecision, leader: BeamNode) -> Row:
        """Return the plain record of the distribution that the leading node was chosen from."""
        processed, beam = decision.processed[leader.group], decision.origin[leader.node_id]
        one = slice(beam, beam + 1)
        stages = [(name, scores[one]) for name, scores in processed.stages]
        narrowed = make_observation(processed.inputs[one], processed.scores[one], stages)
        # The log-probabilities are normalised already; the record needs the raw logits' sum.
        narrowed.logsumexp = processed.logits[one].logsumexp(-1)
        chosen = torch.tensor([leader.token_id], device=processed.scores.device)
        return self.recorder.record(narrowed, chosen, self._index)[0]


def _make_detail(
    decision: SearchDecision, heap: Sequence[FinishedBeam], test: StopTest
) -> BeamDetail:
    best, worst = test.best_running, test.worst_finished
    return BeamDetail(
        pool=tuple(decision.pool),
        heap=tuple(
            Hypothesis(
                h.node, round_decimals(h.sum_logprobs), h.length, round_decimals(h.score), h.group
            )
            for h in heap
        ),
        best_running=None if best is None else round_decimals(best),
        worst_finished=None if worst is None else round_decimals(worst),
        stopping=bool(test.stop_reason),
        winner_node_id=heap[0].node if test.stop_reason else None,
        stop_reason=test.stop_reason,
    )


def make_node(
    *, logprob: float, total: float, score: float, floor: float, **fields: Any
) -> BeamNode:
    """Return a candidate of the pool with rounded numbers.

    Args:
        logprob: log-probability of its token, in nats.
        total: sum of log-probabilities of the whole text.
        score: the sum after the length penalty.
        floor: sum of the worst beam that goes on, for the margin.
        fields: the other fields of BeamNode.
    """
    return BeamNode(
        logprob=round_decimals(logprob),
        sum_logprobs=round_decimals(total),
        score=round_decimals(score),
        margin=round_decimals(total - floor),
        **fields,
    )


@dataclass(frozen=True)
class SearchDecision:
    """The pool of one step and what it was chosen from.

    Attributes:
        pool: candidates that are texts, in the order of the search.
        processed: group -> its processed distributions; group 0 holds all beams of a plain search.
        origin: node of the pool -> the beam of its group that it continues.
        elapsed_s: seconds since the recorder was created.
    """

    pool: Sequence[BeamNode]
    processed: Mapping[int, ProcessedBeams]
    origin: Mapping[int, int]
    elapsed_s: float


@dataclass(frozen=True)
class StopTest:
    """Both sides of the stopping test after a step, None if unknown; and why the search ends."""

    best_running: float | None
    worst_finished: float | None
    stop_reason: str


@dataclass(frozen=True)
class ProcessedBeams:
    """Logits of all beams and the output of every processor; short-lived tensors.

    Nothing is normalised here, since only one beam's distribution is recorded.
    """

    logits: torch.Tensor
    """(beams, vocab) raw."""
    inputs: torch.Tensor
    """(beams, vocab) input of the first processor: log-probabilities, or raw logits."""
    scores: torch.Tensor
    """(beams, vocab) processed log-probabilities, which the search sums."""
    stages: Stages


def has_only_placeholders(sums: torch.Tensor) -> bool:
    """Return whether all (beams,) sums of log-probabilities belong to placeholders."""
    return bool((sums <= IMPOSSIBLE_SUM).all())


def best_kept_node(pool: Sequence[BeamNode]) -> BeamNode:
    """Return the pool's best kept node, or its best node if none was kept.

    Raises:
        DecodeError: the pool is empty because every token of every beam was removed.
    """
    if not pool:
        raise DecodeError("Every token of every beam was removed; allow more tokens.")
    kept = [node for node in pool if node.fate == "kept"]
    return max(kept or pool, key=lambda node: node.sum_logprobs)
