"""Group beam search as transformers had it: one heap per group, one forward pass for all."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from engine.loops.beams.greedy_path import measure_greedy_path
from engine.loops.beams.hypothesis_heap import HypothesisHeap, sort_best_first
from engine.loops.beams.step_record import (
    IMPOSSIBLE_SUM,
    NO_BETTER_BEAM,
    NO_OPEN_BEAM,
    PROMPT_NODE,
    BeamOutput,
    FinishedBeam,
    ProcessedBeams,
    SearchDecision,
    StepWriter,
    StopTest,
    has_only_placeholders,
    make_node,
    pack_output,
)
from engine.loops.forward import Forward
from engine.loops.recorder import round_decimals
from engine.loops.rows import check_stopping
from engine.loops.special_ids import eos_ids, padding_id
from engine.messages import Message
from engine.models.model_types import GenerationConfig, Processors, StoppingCriteriaList
from engine.trace.details import BeamNode
from engine.trace.records import Step

_IMPOSSIBLE = -1e9


@dataclass(frozen=True)
class Continuation:
    """A beam with one more token."""

    beam: int
    token_id: int
    total: float
    """Sum of log-probabilities."""
    logprob: float
    """Of the token."""
    rank: int
    """Place in the pool."""


class BeamGroup:
    """One group's beams, heap and node numbers.

    Args:
        number: of the group, from 0.
        prompt: (1, length) ids.
        size: beams of the group.
        config: as generate() prepared it.
        writer: has the tree that numbers the nodes of all groups.
        diversity_penalty: penalty of the group's processor per beam of an earlier group.
    """

    def __init__(
        self,
        number: int,
        prompt: torch.Tensor,
        size: int,
        config: GenerationConfig,
        writer: StepWriter,
        diversity_penalty: float = 0.0,
    ) -> None:
        self.number, self.size, self.tree = number, size, writer.tree
        self.diversity_penalty = diversity_penalty
        self.prompt_length, self.num_return_sequences = prompt.shape[1], config.num_return_sequences
        self.heap = HypothesisHeap(size, config, self.prompt_length)
        self.ids = prompt.repeat(size, 1)
        # Only the first beam may start: all rows hold the same prompt.
        self.sums = torch.full((size,), _IMPOSSIBLE, device=prompt.device)
        self.sums[0] = 0
        self.nodes = [PROMPT_NODE] * size
        self.parents = torch.arange(size, device=prompt.device)
        self.done = False
        self.eos = set(eos_ids(config))
        self.reachable: float | None = None
        self.origin: dict[int, int] = {}
        """Node of the last pool -> beam it extends."""

    @property
    def length(self) -> int:
        """New tokens of the open beams."""
        return self.ids.shape[1] - self.prompt_length

    @property
    def is_exhausted(self) -> bool:
        """Whether no open beam is possible."""
        return has_only_placeholders(self.sums)

    def pad_step(self, pad_id: int) -> None:
        """Append padding to the beams of a finished group."""
        self.sums = torch.zeros_like(self.sums)
        self.parents = torch.zeros_like(self.parents)
        # All groups share one pass, so a finished group stays in it with padding.
        padding = torch.full_like(self.ids[:, :1], pad_id)
        self.ids = torch.cat([self.ids[self.parents], padding], dim=-1)

    def advance(self, scores: torch.Tensor, earlier_tokens: torch.Tensor) -> list[BeamNode]:
        """Take one step on (size, vocab) processed log-probabilities; return the pool.

        Args:
            scores: of this group's beams.
            earlier_tokens: (beams of earlier groups,) their tokens of this step.
        """
        # 1. The pool: the best sums of log-probabilities over all beams and tokens.
        totals = scores + self.sums[:, None]
        # Enough for ``size`` open beams even if every end-of-sequence id is among the best.
        top = totals.flatten().topk(max(2, 1 + len(self.eos)) * self.size)
        places: list[int] = top.indices.tolist()
        sums: list[float] = top.values.tolist()
        logprobs: list[float] = scores.flatten()[top.indices].tolist()
        vocab, numbers = scores.shape[-1], zip(sums, logprobs, strict=True)
        pool = [
            Continuation(place // vocab, place % vocab, total, logprob, rank)
            for rank, (place, (total, logprob)) in enumerate(zip(places, numbers, strict=True))
        ]
        # 2. The beams that go on, and the texts that join the heap.
        pool, kept = self._choose_beams(pool, scores, totals)
        chosen: list[int] = earlier_tokens.tolist()
        nodes = self._judge_pool(pool, kept, chosen)
        self._extend_beams(kept)
        # 3. The stopping test.
        self.reachable = self.heap.reachable(pool[0].total, self.length)
        self.done = self.heap.is_done(pool[0].total, self.length) or self.is_exhausted
        return nodes

    def add_open_beams(self) -> None:
        """Add the open beams to the heap when the search ends."""
        if self.done:
            return
        sums: list[float] = self.sums.tolist()
        for total, node in zip(sums, self.nodes, strict=True):
            if node >= 0:
                self.heap.add(self._finish_beam(total, node, self.length))

    def _choose_beams(
        self, pool: list[Continuation], scores: torch.Tensor, totals: torch.Tensor
    ) -> tuple[list[Continuation], list[Continuation]]:
        """Return the pool and the beams that go on: its first ``size`` that do not end."""
        del scores, totals
        # Only ends count here; stop strings and the length are checked once a step, for all groups.
        return pool, [c for c in pool if c.token_id not in self.eos][: self.size]

    def _judge_pool(
        self, pool: list[Continuation], kept: list[Continuation], earlier_tokens: list[int]
    ) -> list[BeamNode]:
        """Number the pool, add finished texts to the heap and return the nodes with their fates."""
        floor = min((c.total for c in kept if c.total > IMPOSSIBLE_SUM), default=pool[0].total)
        numbers: dict[int, int] = {}
        nodes, ranks = list[BeamNode](), {c.rank for c in kept}
        self.origin = {}
        for c in pool:
            parent = self.nodes[c.beam]
            # The tokens come group by group, ``size`` of each.
            groups = [
                i // self.size for i, token in enumerate(earlier_tokens) if token == c.token_id
            ]
            if c.total <= IMPOSSIBLE_SUM or parent < PROMPT_NODE:
                continue
            node = numbers[c.rank] = self.tree.add(parent, c.token_id)
            self.origin[node] = c.beam
            fate, reason = self._fate(c, c.rank in ranks, node)
            nodes.append(
                make_node(
                    node_id=node,
                    parent_id=parent,
                    token_id=c.token_id,
                    logprob=c.logprob,
                    total=c.total,
                    score=self.heap.score(c.total, self.length + 1),
                    rank=c.rank,
                    floor=floor,
                    group=self.number,
                    diversity_penalty=round_decimals(len(groups) * self.diversity_penalty),
                    fate=fate,
                    penalised_by=tuple(sorted(set(groups))),
                    reason=reason,
                )
            )
        # Below PROMPT_NODE is a placeholder, which is no text.
        self.nodes = [numbers.get(c.rank, PROMPT_NODE - 1) for c in kept]
        return nodes

    def _fate(self, candidate: Continuation, kept: bool, node: int) -> tuple[str, str]:
        if candidate.token_id not in self.eos:
            return ("kept" if kept else "pruned"), ""
        if candidate.rank >= self.size:
            return "blocked", Message(
                "It ended outside the first {n} of its group's pool.", n=self.size
            )
        if self.heap.add(self._finish_beam(candidate.total, node, self.length + 1)):
            return "finished", ""
        return "finished_worse", "Its score is below those of the group's finished hypotheses."

    def _finish_beam(self, total: float, node: int, length: int) -> FinishedBeam:
        ids = tuple(self.tree.path(node))
        return FinishedBeam(self.heap.score(total, length), total, length, node, ids, self.number)

    def _extend_beams(self, kept: list[Continuation]) -> None:
        device = self.ids.device
        self.parents = torch.tensor([c.beam for c in kept], device=device)
        tokens = torch.tensor([[c.token_id] for c in kept], device=device)
        self.ids = torch.cat([self.ids[self.parents], tokens], dim=-1)
        self.sums = torch.tensor([c.total for c in kept], device=device)


# In quotes, because torch is not loaded yet when the page starts.
GroupProcessors: TypeAlias = "Callable[[torch.Tensor], Sequence[Any]]"
"""(beams of earlier groups,) their tokens of this step -> the processors of the next group."""


def run_group_search(
    forward: Forward,
    groups: Sequence[BeamGroup],
    processors: GroupProcessors,
    rules: tuple[Processors, StoppingCriteriaList],
    writer: StepWriter,
) -> Generator[Step, None, BeamOutput]:
    """Step until every group is done or the open beams meet the stopping criteria.

    Args:
        forward: runs the model on all beams.
        groups: in the order in which they choose.
        processors: what a group's log-probabilities go through.
        rules: the processors and the stopping criteria that generate() prepared.
        writer: records every step.
    """
    config, prompt, ids = forward.generation_config, groups[0].ids[:1], _join_ids(groups)
    while True:
        # 1. One forward pass for the beams of all groups.
        logits = forward.last_logits(forward(ids), prompt.device)
        writer.check_finite(logits)
        # 2. Group after group: each sees the tokens that earlier groups have chosen at this step.
        earlier_tokens = prompt.new_empty(0)
        pool, processed = list[BeamNode](), dict[int, ProcessedBeams]()
        for group, rows in zip(groups, torch.split(logits, groups[0].size), strict=True):
            if group.done:
                group.pad_step(padding_id(config))
            else:
                # The penalty is part of the scores, so all sums contain it, as in transformers.
                processed[group.number] = writer.process(
                    rows, group.ids, processors(earlier_tokens)
                )
                pool += group.advance(processed[group.number].scores, earlier_tokens)
            earlier_tokens = torch.cat([earlier_tokens, group.ids[:, -1]])
        ids = _join_ids(groups)
        forward.reorder(torch.cat([g.parents + g.number * g.size for g in groups]))
        # 3. Whether the search ends; its open beams then count as finished.
        reason = _stop_reason(groups, ids, rules[1])
        origin = {node: beam for g in groups for node, beam in g.origin.items()}
        decision = SearchDecision(pool, processed, origin, writer.recorder.elapsed_s())
        if reason:
            for group in groups:
                group.add_open_beams()
        step = writer.write(decision, _best(groups), _stop_test(groups, reason))
        yield step
        if reason:
            break
    yield from measure_greedy_path(writer, step, forward, prompt, rules)
    return pack_output(prompt, _best(groups)[: config.num_return_sequences], padding_id(config))


def _join_ids(groups: Sequence[BeamGroup]) -> torch.Tensor:
    """Return (beams, length) open beams of all groups."""
    return torch.cat([group.ids for group in groups])


def _best(groups: Sequence[BeamGroup]) -> list[FinishedBeam]:
    """Return the finished hypotheses of all groups, best first."""
    return sort_best_first(group.heap for group in groups)


def _stop_reason(
    groups: Sequence[BeamGroup], ids: torch.Tensor, stopping_criteria: StoppingCriteriaList
) -> str:
    """Return why the search ends, "" if it goes on."""
    if all(group.done for group in groups):
        exhausted = any(group.is_exhausted for group in groups)
        return NO_OPEN_BEAM if exhausted else NO_BETTER_BEAM
    if bool(check_stopping(stopping_criteria, ids).all()):
        return "Every open beam has met a stopping rule, such as the longest length."
    return ""


def _stop_test(groups: Sequence[BeamGroup], reason: str) -> StopTest:
    reachable = [g.reachable for g in groups if not g.done and g.reachable is not None]
    full = [g.heap.worst for g in groups if g.heap.full]
    worst = min(full) if len(full) == len(groups) else None
    return StopTest(max(reachable) if reachable else None, worst, reason)
