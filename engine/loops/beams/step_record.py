"""Shared by the beam loops: node numbers, finished hypotheses, and the record of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.errors import DecodeError
from engine.loops.recorder import Recorder, Row, Stages, make_observation
from engine.trace.details import BeamDetail, BeamNode
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
    new = torch.tensor(rows, dtype=prompt.dtype, device=prompt.device)
    return BeamOutput(
        torch.cat([prompt.expand(len(best), -1), new], dim=-1),
        torch.tensor([hypothesis.score for hypothesis in best], device=prompt.device),
        tuple(len(hypothesis.ids) for hypothesis in best),
    )


def padding_id(generation_config: Any) -> int:
    """Return the padding id, else the first end-of-sequence id, else -1."""
    for ids in (generation_config._pad_token_tensor, generation_config._eos_token_tensor):
        if ids is not None:
            return int(ids.flatten()[0])
    return -1


class StepWriter:
    """Turns a decision into a Step whose text is the best hypothesis.

    Args:
        recorder: provides rows and elapsed time.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.shown: list[int] = []
        self.index = 0

    def row(self, seen: ProcessedBeams, beam: int, token_id: int) -> Row:
        """Return the plain record of one beam's distribution."""
        one = slice(beam, beam + 1)
        stages = [(name, scores[one]) for name, scores in seen.stages]
        narrowed = make_observation(seen.given[one], seen.scores[one], stages)
        narrowed.logsumexp = seen.logits[one].logsumexp(-1)
        chosen = torch.tensor([token_id], device=seen.scores.device)
        return self.recorder.record(narrowed, chosen, self.index)[0]

    def step(self, row: Row, best: Sequence[int], detail: BeamDetail, elapsed_s: float) -> Step:
        """Return the Step that changes the shown text into ``best``."""
        keep = 0
        while keep < min(len(best), len(self.shown)) and best[keep] == self.shown[keep]:
            keep += 1
        self.shown = list(best)
        self.index += 1
        return Step(
            index=self.index - 1,
            keep=keep,
            emit=tuple(best[keep:]),
            candidates=row.candidates,
            stages=row.stages,
            detail=detail,
            logsumexp=row.logsumexp,
            entropy=row.entropy,
            elapsed_s=elapsed_s,
        )


@dataclass(frozen=True)
class ProcessedBeams:
    """Logits of all beams and the output of every processor; short-lived tensors.

    Nothing is normalised here, since only one beam's distribution is recorded.
    """

    logits: torch.Tensor
    """(beams, vocab) raw."""
    given: torch.Tensor
    """(beams, vocab) input of the first processor: log-probabilities, or raw logits."""
    scores: torch.Tensor
    """(beams, vocab) processed log-probabilities, which the search sums."""
    stages: Stages


def process_logprobs(
    recorder: Recorder, logits: torch.Tensor, ids: torch.Tensor, processors: Sequence[Any]
) -> ProcessedBeams:
    """Run the processors over the log-probabilities of (beams, vocab) raw logits."""
    given = torch.log_softmax(logits, dim=-1)
    return ProcessedBeams(logits, given, *recorder.apply_processors(given, ids, processors))


def has_only_placeholders(sums: torch.Tensor) -> bool:
    """Return whether all (beams,) sums of log-probabilities belong to placeholders."""
    return bool((sums <= IMPOSSIBLE_SUM).all())


def check_finite(logits: torch.Tensor, step: int) -> None:
    """Refuse (beams, vocab) raw logits with a NaN or infinite maximum, which ranking would hide.

    A single token may have a logit of -inf.

    Raises:
        DecodeError: naming the step.
    """
    if not bool(torch.isfinite(logits.amax(-1)).all()):
        raise DecodeError(f"The model's raw logits are not finite at step {step + 1}.")


def check_has_hypothesis(best: Sequence[FinishedBeam]) -> None:
    """Refuse to end a search without a hypothesis.

    Raises:
        DecodeError: no hypothesis has finished.
    """
    if not best:
        raise DecodeError("No text meets all that is asked of it; allow more tokens.")


def best_kept_node(pool: Sequence[BeamNode]) -> BeamNode:
    """Return the pool's best kept node, or its best node if none was kept.

    Raises:
        DecodeError: the pool is empty because every token of every beam was removed.
    """
    if not pool:
        raise DecodeError("Every token of every beam was removed; allow more tokens.")
    kept = [node for node in pool if node.fate == "kept"]
    return max(kept or pool, key=lambda node: node.sum_logprobs)
