"""Group beam search as transformers had it: one heap per group, one forward pass for all."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import torch

from engine.loops.beams.greedy_path import measure_greedy_path
from engine.loops.beams.hypothesis_heap import HypothesisHeap, sort_best_first
from engine.loops.beams.step_record import (
    IMPOSSIBLE_SUM,
    NO_BETTER_BEAM,
    NO_OPEN_BEAM,
    PROMPT_NODE,
    BeamOutput,
    BeamTree,
    FinishedBeam,
    ProcessedBeams,
    StepWriter,
    best_kept_node,
    check_finite,
    check_has_hypothesis,
    has_only_placeholders,
    pack_output,
    padding_id,
    process_logprobs,
)
from engine.loops.forward import Forward
from engine.loops.recorder import Recorder, round_decimals
from engine.trace.details import BeamDetail, BeamNode, Hypothesis
from engine.trace.records import Step

_IMPOSSIBLE = -1e9


class BeamGroup:
    """One group's beams, heap and node numbers.

    Args:
        number: of the group, from 0.
        prompt: (1, length) ids.
        size: beams of the group.
        config: as generate() prepared it.
        tree: numbers the nodes of all groups.
        diversity_penalty: penalty of the group's processor per beam of an earlier group.
    """

    def __init__(
        self,
        number: int,
        prompt: torch.Tensor,
        size: int,
        config: Any,
        tree: BeamTree,
        diversity_penalty: float = 0.0,
    ) -> None:
        self.number, self.size, self.tree = number, size, tree
        self.diversity_penalty = diversity_penalty
        self.prompt_length, self.wanted = prompt.shape[1], config.num_return_sequences
        self.heap = HypothesisHeap(size, config, self.prompt_length)
        self.ids = prompt.repeat(size, 1)
        # Only the first beam may start: all rows hold the same prompt.
        self.sums = torch.full((size,), _IMPOSSIBLE, device=prompt.device)
        self.sums[0] = 0
        self.nodes = [PROMPT_NODE] * size
        self.parents = torch.arange(size, device=prompt.device)
        self.done = False
        self.eos = (
            set() if config._eos_token_tensor is None else set(config._eos_token_tensor.tolist())
        )
        self.reachable: float | None = None
        self.origin: dict[int, int] = {}
        """Node of the last pool -> beam it extends."""

    @property
    def length(self) -> int:
        """New tokens of the open beams."""
        return self.ids.shape[1] - self.prompt_length

    def pad_step(self, pad_id: int) -> None:
        """Append padding to the beams of a finished group."""
        self.sums = torch.zeros_like(self.sums)
        self.parents = torch.zeros_like(self.parents)
        padding = torch.full_like(self.ids[:, :1], pad_id)
        self.ids = torch.cat([self.ids[self.parents], padding], dim=-1)

    def advance(self, seen: ProcessedBeams, charged: dict[int, tuple[int, ...]]) -> list[BeamNode]:
        """Take one step on (size, vocab) processed log-probabilities; return the pool.

        Args:
            seen: of this group's beams.
            charged: token -> earlier groups that chose it, one entry per beam.
        """
        vocab = seen.scores.shape[-1]
        pool = (seen.scores + self.sums[:, None]).flatten()
        # Enough for ``size`` open beams even if every end-of-sequence id is among the best.
        top = pool.topk(max(2, 1 + len(self.eos)) * self.size)
        sums, flat = top.values.tolist(), top.indices.tolist()
        chosen = self._continuing_ranks(flat, vocab)
        logprobs = seen.scores.flatten()[top.indices].tolist()
        open_sums = [sums[i] for i in chosen if sums[i] > IMPOSSIBLE_SUM]
        floor = min(open_sums, default=sums[0])
        nodes, numbers = [], {}
        self.origin = {}
        for rank, place in enumerate(flat):
            token, parent = place % vocab, self.nodes[place // vocab]
            if sums[rank] <= IMPOSSIBLE_SUM or parent < PROMPT_NODE:
                numbers[rank] = PROMPT_NODE - 1
                continue
            numbers[rank] = self.tree.add(parent, token)
            self.origin[numbers[rank]] = place // vocab
            fate, reason = self._fate(rank, token, sums[rank], rank in chosen, numbers[rank])
            groups = charged.get(token, ())
            nodes.append(
                BeamNode(
                    node_id=numbers[rank],
                    parent_id=parent,
                    token_id=token,
                    logprob=round_decimals(logprobs[rank]),
                    sum_logprobs=round_decimals(sums[rank]),
                    score=round_decimals(self.heap.score(sums[rank], self.length + 1)),
                    rank=rank,
                    margin=round_decimals(sums[rank] - floor),
                    group=self.number,
                    diversity_penalty=round_decimals(len(groups) * self.diversity_penalty),
                    fate=fate,
                    penalised_by=tuple(sorted(set(groups))),
                    reason=reason,
                )
            )
        self._extend_beams(top, chosen, numbers, vocab)
        self.reachable = self.heap.reachable(sums[0], self.length)
        self.done = self.heap.is_done(sums[0], self.length) or self.is_exhausted
        return nodes

    @property
    def is_exhausted(self) -> bool:
        """Whether no open beam is possible."""
        return has_only_placeholders(self.sums)

    def add_open_beams(self) -> None:
        """Add the open beams to the heap when the search ends."""
        if self.done:
            return
        for total, node in zip(self.sums.tolist(), self.nodes, strict=True):
            if node >= 0:
                self.heap.add(self._finish_beam(total, node, self.length))

    def _continuing_ranks(self, flat: list[int], vocab: int) -> list[int]:
        """Return the ranks that continue: the first ``size`` that are not end-of-sequence."""
        return [i for i, place in enumerate(flat) if place % vocab not in self.eos][: self.size]

    def _fate(
        self, rank: int, token: int, total: float, chosen: bool, node: int
    ) -> tuple[str, str]:
        if token not in self.eos:
            return ("kept" if chosen else "pruned"), ""
        if rank >= self.size:
            return "blocked", f"It ended outside the first {self.size} of its group's pool."
        if self.heap.add(self._finish_beam(total, node, self.length + 1)):
            return "finished", ""
        return "finished_worse", "Its score is below those of the group's finished hypotheses."

    def _finish_beam(self, total: float, node: int, length: int) -> FinishedBeam:
        ids = tuple(self.tree.path(node))
        return FinishedBeam(self.heap.score(total, length), total, length, node, ids, self.number)

    def _extend_beams(
        self, top: Any, chosen: list[int], numbers: dict[int, int], vocab: int
    ) -> None:
        at = torch.tensor(chosen, device=self.ids.device)
        self.parents = top.indices[at] // vocab
        self.ids = torch.cat([self.ids[self.parents], (top.indices[at] % vocab)[:, None]], dim=-1)
        self.sums = top.values[at]
        self.nodes = [numbers[i] for i in chosen]


class GroupSearch:
    """One forward pass per step for all groups, then group after group.

    Args:
        groups: in the order they choose.
        processors: (group, (beams of earlier groups,) tokens of this step) -> its processors.
        recorder: records every step.
        pad_id: appended to the beams of a finished group.
    """

    def __init__(
        self,
        groups: Sequence[BeamGroup],
        processors: Callable[[BeamGroup, torch.Tensor], Sequence[Any]],
        recorder: Recorder,
        pad_id: int,
    ) -> None:
        self.groups, self.processors, self.pad_id = groups, processors, pad_id
        self.recorder, self.writer = recorder, StepWriter(recorder)
        self.views: dict[int, ProcessedBeams] = {}

    @property
    def ids(self) -> torch.Tensor:
        """(beams, length) open beams of all groups."""
        return torch.cat([group.ids for group in self.groups])

    @property
    def parents(self) -> torch.Tensor:
        """(beams,) cache row that each open beam extends."""
        return torch.cat([g.parents + g.number * g.size for g in self.groups])

    @property
    def done(self) -> bool:
        """Whether no group can improve."""
        return all(group.done for group in self.groups)

    def advance(self, logits: torch.Tensor) -> list[BeamNode]:
        """Advance every group on (beams, vocab) raw logits; return the joint pool."""
        taken = torch.empty(0, dtype=torch.long, device=logits.device)
        owners: list[int] = []
        pool: list[BeamNode] = []
        for group in self.groups:
            rows = logits[group.number * group.size : (group.number + 1) * group.size]
            if group.done:
                group.pad_step(self.pad_id)
            else:
                rules = self.processors(group, taken)
                seen = process_logprobs(self.recorder, rows, group.ids, rules)
                self.views[group.number] = seen
                charged: dict[int, tuple[int, ...]] = {}
                for token, owner in zip(taken.tolist(), owners, strict=True):
                    charged[token] = (*charged.get(token, ()), owner)
                pool += group.advance(seen, charged)
            taken = torch.cat([taken, group.ids[:, -1]])
            owners += [group.number] * group.size
        return pool

    def best(self) -> list[FinishedBeam]:
        """Return the finished hypotheses of all groups, best first."""
        return sort_best_first(group.heap for group in self.groups)

    def record(self, pool: list[BeamNode], elapsed_s: float, stop_reason: str) -> Step:
        """Return the Step of a pool; a non-empty ``stop_reason`` marks the last one."""
        leader, best = best_kept_node(pool), self.best()
        if stop_reason:
            check_has_hypothesis(best)
        group = self.groups[leader.group]
        row = self.writer.row(
            self.views[leader.group], group.origin[leader.node_id], leader.token_id
        )
        if best and (stop_reason or best[0].score >= leader.score):
            text = list(best[0].ids)
        else:
            text = group.tree.path(leader.node_id)
        reachable = [g.reachable for g in self.groups if not g.done and g.reachable is not None]
        full = [g.heap.worst for g in self.groups if g.heap.full]
        detail = BeamDetail(
            pool=tuple(pool),
            heap=tuple(
                Hypothesis(
                    h.node,
                    round_decimals(h.sum_logprobs),
                    h.length,
                    round_decimals(h.score),
                    h.group,
                )
                for h in best
            ),
            best_running=round_decimals(max(reachable)) if reachable else None,
            worst_finished=round_decimals(min(full)) if len(full) == len(self.groups) else None,
            stopping=bool(stop_reason),
            winner_node_id=best[0].node if stop_reason else None,
            stop_reason=stop_reason,
        )
        return self.writer.step(row, text, detail, elapsed_s)


def _stop_reason(search: GroupSearch) -> str:
    if any(group.is_exhausted for group in search.groups):
        return NO_OPEN_BEAM
    return NO_BETTER_BEAM


def run_group_search(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    search: GroupSearch,
    model_kwargs: dict[str, Any],
) -> Generator[Step, None, BeamOutput]:
    """Step until every group is done or the open beams meet the stopping criteria."""
    config, prompt, at_start = generation_config, input_ids[:1], dict(model_kwargs)
    forward = Forward(model, config, model_kwargs)

    reason = ""
    while not reason:
        logits = forward.last_logits(forward(search.ids), prompt.device)
        check_finite(logits, search.writer.index)
        pool = search.advance(logits)
        forward.reorder(search.parents)
        if search.done:
            reason = _stop_reason(search)
        elif bool(stopping_criteria(search.ids, None).all()):
            reason = "Every open beam has met a stopping rule, such as the longest length."
        elapsed_s = search.recorder.elapsed_s()
        if reason:
            for group in search.groups:
                group.add_open_beams()
        yield (step := search.record(pool, elapsed_s, reason))
    path = (model, prompt, logits_processor, stopping_criteria, config, at_start)
    yield from measure_greedy_path(search.recorder, step, *path, tuple(search.writer.shown))
    return pack_output(prompt, search.best()[: config.num_return_sequences], padding_id(config))
