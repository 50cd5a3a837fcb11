"""Turns tensors into plain records: everything a step needs in one packed device-to-host copy.

Probabilities are always over the whole vocabulary, never renormalised over a cut list.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from engine.errors import DecodeError
from engine.trace.records import Candidate, Stage

DIGITS = 6


def rounded(value: float) -> float:
    """Round a number for the record; 6 decimals keep sums exact to 1e-5 over 20 steps."""
    return round(value, DIGITS)


def significant(value: float) -> float:
    """Round a probability for the record: a small one keeps its digits and never becomes 0."""
    return float(f"{value:.{DIGITS}g}")


@dataclass
class Observation:
    """One position's logits on their way through the processors; tensors, short-lived."""

    logprobs: torch.Tensor
    """(batch, vocab) the model's own log-probabilities."""
    logsumexp: torch.Tensor
    """(batch,) of the raw logits."""
    scores: torch.Tensor
    """(batch, vocab) what the last processor returned."""
    stages: list[tuple[str, torch.Tensor]]
    """Name and (batch, vocab) output of every processor that ran."""


@dataclass(frozen=True)
class Row:
    """The plain record of one row of a batch."""

    candidates: tuple[Candidate, ...]
    stages: tuple[Stage, ...]
    logsumexp: float
    entropy: float
    extra: tuple[float, ...]


def display_name(processor: object) -> str:
    """Return a processor's name without the class-name suffixes."""
    name = type(processor).__name__
    for suffix in ("LogitsProcessor", "LogitsWarper", "Processor"):
        name = name.removesuffix(suffix)
    return name or type(processor).__name__


class Recorder:
    """Records the steps of one run.

    Args:
        top_candidates: tokens kept per step, at least 1.
    """

    def __init__(self, top_candidates: int = 20) -> None:
        self.top_candidates = top_candidates
        self.started = time.perf_counter()

    def elapsed_s(self) -> float:
        """Seconds since the recorder was made."""
        return rounded(time.perf_counter() - self.started)

    def observe(
        self, logits: torch.Tensor, input_ids: torch.Tensor, processors: Sequence[object]
    ) -> Observation:
        """Run the processors one by one, keeping what each returned.

        Args:
            logits: (batch, vocab) float32 raw logits; not modified.
            input_ids: (batch, length) ids so far.
            processors: logits processors in order.
        """
        logsumexp = torch.logsumexp(logits, dim=-1)
        logprobs = logits - logsumexp[:, None]
        scores, stages = logits, []
        for processor in processors:
            own = type(processor).__module__.startswith("transformers.")
            # A foreign processor may write into its argument; transformers' own never do.
            scores = processor(input_ids, scores if own else scores.clone())
            stages.append((display_name(processor), scores))
        return Observation(logprobs, logsumexp, scores, stages)

    def record(
        self, seen: Observation, chosen: torch.Tensor, step: int, extra: torch.Tensor | None = None
    ) -> list[Row]:
        """Turn an observation into plain rows with one copy to the host.

        Args:
            seen: what ``observe`` returned.
            chosen: (batch,) the emitted ids.
            step: index for error messages.
            extra: (batch, m) more numbers to bring along in the same copy.

        Raises:
            DecodeError: the raw logits are not finite, or every token was removed.
        """
        packed, layout = _pack(seen, chosen, self.top_candidates, extra)
        return [_unpack(row, layout, seen, step, self.top_candidates) for row in packed.tolist()]


def _pack(
    seen: Observation, chosen: torch.Tensor, top: int, extra: torch.Tensor | None
) -> tuple[torch.Tensor, dict[str, int]]:
    """Put all numbers of a step into one (batch, columns) tensor."""
    logprobs = seen.logprobs
    top = min(top, logprobs.shape[-1])
    probs = logprobs.exp()
    entropy = torch.special.entr(probs).sum(-1, keepdim=True)
    raw_ids = logprobs.topk(top, dim=-1).indices
    columns = [seen.logsumexp[:, None], entropy]
    stage_columns, final = _stage_columns(seen, probs)
    columns += stage_columns
    others = (
        [chosen[:, None]] if not seen.stages else [chosen[:, None], final.topk(top, -1).indices]
    )
    other_ids = torch.cat(others, dim=-1)
    ids = torch.cat([raw_ids, other_ids], dim=-1)
    own = logprobs.gather(-1, other_ids)
    ranks = torch.stack([(logprobs > own[:, i : i + 1]).sum(-1) for i in range(own.shape[1])], -1)
    removed = _first_removal(seen, ids)
    columns += [ids, logprobs.gather(-1, ids), final.gather(-1, ids), ranks, removed]
    if extra is not None:
        columns.append(extra)
    layout = {"top": top, "ids": ids.shape[1], "extra": 0 if extra is None else extra.shape[1]}
    return torch.cat([column.to(torch.float32) for column in columns], dim=-1).cpu(), layout


def _stage_columns(
    seen: Observation, probs: torch.Tensor
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Return kept, kept mass and entropy per stage, and the final (batch, vocab) log-probs."""
    columns, final = [], seen.logprobs
    for _, scores in seen.stages:
        kept = scores > -torch.inf
        final = scores - torch.logsumexp(scores, dim=-1, keepdim=True)
        mass = torch.where(kept, probs, 0.0).sum(-1)
        probs = final.exp()
        columns += [kept.sum(-1)[:, None], mass[:, None]]
        columns.append(torch.special.entr(probs).sum(-1, keepdim=True))
    return columns, final


def _first_removal(seen: Observation, ids: torch.Tensor) -> torch.Tensor:
    """Return, per candidate, the index of the first stage that removed it, or -1."""
    removed = torch.full_like(ids, -1)
    for index, (_, scores) in reversed(list(enumerate(seen.stages))):
        removed = torch.where(scores.gather(-1, ids) == -torch.inf, index, removed)
    return removed


def _unpack(
    row: list[float], layout: dict[str, int], seen: Observation, step: int, top: int
) -> Row:
    """Read one packed row back into plain records."""
    logsumexp, entropy = row[0], row[1]
    if logsumexp != logsumexp or logsumexp in (float("inf"), float("-inf")):
        raise DecodeError(f"The model's raw logits are not finite at step {step}.")
    at = 2
    stages = []
    for name, _ in seen.stages:
        kept, mass, stage_entropy = row[at : at + 3]
        at += 3
        if kept == 0:
            raise DecodeError(f"{name} removed every token at step {step}.")
        if stage_entropy != stage_entropy:
            raise DecodeError(f"The scores became NaN in {name} at step {step}.")
        stages.append(Stage(name, int(kept), significant(min(mass, 1.0)), rounded(stage_entropy)))
    n = layout["ids"]
    ids, raws, processed = row[at : at + n], row[at + n : at + 2 * n], row[at + 2 * n : at + 3 * n]
    at += 3 * n
    others = n - layout["top"]
    ranks = [*range(layout["top"]), *row[at : at + others]]
    at += others
    removed = row[at : at + n]
    at += n
    order = _selection([int(i) for i in ids], processed, layout["top"], top)
    names = [name for name, _ in seen.stages]
    candidates = sorted(
        (
            Candidate(
                int(ids[i]),
                rounded(raws[i]),
                rounded(processed[i]),
                int(ranks[i]),
                None if removed[i] < 0 else names[int(removed[i])],
            )
            for i in order
        ),
        key=lambda c: (-c.processed_logprob, -c.raw_logprob, c.rank),
    )
    return Row(
        tuple(candidates), tuple(stages), rounded(logsumexp), rounded(entropy), tuple(row[at:])
    )


def _selection(ids: list[int], processed: list[float], raw_count: int, top: int) -> list[int]:
    """Choose which columns become candidates: the emitted one, then the two rankings in turn.

    ``ids`` holds the raw ranking, then the emitted token, then (if anything ran) the processed
    ranking. A token found twice keeps its column in the raw ranking, whose rank is exact.
    """
    raw = range(raw_count)
    survivors = [i for i in range(raw_count + 1, len(ids)) if processed[i] > -math.inf]
    pairs = itertools.zip_longest(survivors, raw)
    turns = [raw_count, *(i for pair in pairs for i in pair if i is not None)]
    column = {}
    for i in reversed(range(len(ids))):
        column[ids[i]] = i
    picked = dict.fromkeys(column[ids[i]] for i in turns)
    return list(picked)[:top]
