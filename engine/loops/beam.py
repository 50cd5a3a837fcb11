"""Beam search and beam-search multinomial sampling (transformers 5.23 ``_beam_search``)."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import torch

from engine.details import BeamDetail, BeamNode, Hypothesis
from engine.loops.beam_record import (
    IMPOSSIBLE,
    PROMPT,
    BeamOutput,
    Finished,
    StepWriter,
    Tree,
    best_kept,
    output,
    pad_of,
)
from engine.loops.forward import Forward
from engine.loops.greedy_path import greedy_path
from engine.recorder import Observation, Recorder, rounded
from engine.trace import Step

_NEVER = -1e9


@dataclass
class Pool:
    """The candidates of one step, in the order the search considers them; tensors of n each."""

    scores: torch.Tensor
    """Sums of log-probabilities."""
    flat: torch.Tensor
    """beam * vocabulary + token."""
    arrivals: torch.Tensor
    """e / p of the race, zeros without one."""


@dataclass
class Ending:
    """What a step decided about finished hypotheses and about going on; tensors."""

    hits: torch.Tensor
    """(n,) candidates that end here."""
    running: torch.Tensor
    """(beams,) pool indices that go on."""
    merged: torch.Tensor
    """(beams,) indices into heap + pool that form the new heap."""
    scores: torch.Tensor
    """(n,) length-penalised scores the candidates were merged with."""


class BeamSearch:
    """The state of one search: running beams, the heap, and the flags of the stopping test.

    Args:
        input_ids: (beams, length) the prompt, once per beam.
        generation_config: as generate() prepared it.
    """

    def __init__(self, input_ids: torch.Tensor, generation_config: Any) -> None:
        config, device = generation_config, input_ids.device
        self.beams, self.prompt_length = input_ids.shape
        self.ids = input_ids
        eos = config._eos_token_tensor
        self.pool_size = max(2, 1 + (0 if eos is None else eos.shape[0])) * self.beams
        self.length_penalty = config.length_penalty
        # One beam is greedy search, which its first end mark ends.
        self.early_stopping = True if self.beams == 1 else config.early_stopping
        self.do_sample, self.max_length = config.do_sample, config.max_length
        # Only the first beam counts at first: otherwise all would take the same tokens.
        self.sums = torch.full((self.beams,), _NEVER, device=device)
        self.sums[0] = 0
        self.heap_scores = torch.full((self.beams,), _NEVER, device=device)
        self.finished = torch.zeros(self.beams, dtype=torch.bool, device=device)
        self.improvable = torch.ones((), dtype=torch.bool, device=device)

    def choose(self, scores: torch.Tensor, generator: torch.Generator) -> Pool:
        """Pick the pool from (beams, vocab) processed log-probabilities."""
        total = (scores + self.sums[:, None]).flatten()
        if not self.do_sample:
            best = total.topk(self.pool_size)
            return Pool(best.values, best.indices, torch.zeros_like(best.values))
        # torch.multinomial without replacement is this race, in order of arrival.
        probs = total.softmax(-1)
        noise = torch.empty_like(probs).exponential_(1, generator=generator)
        flat = (probs / noise).topk(self.pool_size).indices
        return Pool(total[flat], flat, (noise / probs)[flat])

    def extended(self, pool: Pool, vocab: int) -> torch.Tensor:
        """Return (n, length + 1) the candidates' sequences."""
        return torch.cat([self.ids[pool.flat // vocab], (pool.flat % vocab)[:, None]], dim=-1)

    def decide(self, pool: Pool, hits: torch.Tensor) -> Ending:
        """Choose who goes on and who joins the finished hypotheses; updates scores and flags."""
        open_sums = pool.scores + hits.to(torch.float32) * _NEVER
        running = open_sums.topk(self.beams).indices
        first = torch.arange(self.pool_size, device=hits.device) < self.beams
        new_length = self.ids.shape[1] + 1 - self.prompt_length
        scores = pool.scores / (new_length**self.length_penalty)
        full = self.finished.all() & (self.early_stopping is True)
        scores = scores + full.to(torch.float32) * _NEVER
        scores = scores + (~self.improvable).to(torch.float32) * _NEVER
        scores = scores + (~(hits & first)).to(torch.float32) * _NEVER
        merged_scores = torch.cat([self.heap_scores, scores])
        merged = merged_scores.topk(self.beams).indices
        self.heap_scores = merged_scores[merged]
        self.finished = torch.cat([self.finished, hits & first])[merged]
        self.sums = open_sums[running]
        return Ending(hits, running, merged, scores)

    def test(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the two numbers of the stopping test: best reachable score, worst finished one.

        Call after the running beams have grown; "never" with a positive penalty assumes that they
        grow to the longest length, all other settings that they end now.
        """
        longest = self.early_stopping == "never" and self.length_penalty > 0
        length = (self.max_length if longest else self.ids.shape[1]) - self.prompt_length
        best = self.sums[0] / (length**self.length_penalty)
        worst = torch.where(self.finished, self.heap_scores.min(), _NEVER)
        self.improvable = self.improvable & (best > worst).any()
        return best, worst.max()

    def goes_on(self, hits: torch.Tensor) -> torch.Tensor:
        """Return whether another step is made."""
        full = self.finished.all() & (self.early_stopping is True)
        return self.improvable & ~full & ~hits.all()


class BeamRecord:
    """The plain side of a search: node numbers, the heap's members, fates and reasons."""

    def __init__(self, search: BeamSearch) -> None:
        self.tree = Tree()
        self.search = search
        self.running = [PROMPT] * search.beams
        self.heap: list[Finished | None] = [None] * search.beams

    def update(
        self, pool: Pool, ending: Ending, seen: Observation, vocab: int
    ) -> tuple[BeamNode, ...]:
        """Take over a decision; returns the pool's nodes. Called before the state grows."""
        search, heap_was_full = self.search, all(self.heap)
        flat, sums = pool.flat.tolist(), pool.scores.double().tolist()
        logprobs = seen.scores.flatten()[pool.flat].tolist()
        hits, kept = ending.hits.tolist(), set(ending.running.tolist())
        merged, scores = ending.merged.tolist(), ending.scores.tolist()
        length = search.ids.shape[1] + 1 - search.prompt_length
        entered = {i - search.beams for i in merged if i >= search.beams}
        floor = min((sums[i] for i in kept if not hits[i]), default=sums[0])
        nodes, numbers = [], []
        for i, place in enumerate(flat):
            parent, token = self.running[place // vocab], place % vocab
            if sums[i] <= IMPOSSIBLE or parent < PROMPT:
                numbers.append(PROMPT - 1)
                continue
            numbers.append(self.tree.add(parent, token))
            fate, reason = self._fate(i, hits[i], i in kept, i in entered, heap_was_full)
            nodes.append(
                BeamNode(
                    node_id=numbers[-1],
                    parent_id=parent,
                    token_id=token,
                    logprob=rounded(logprobs[i]),
                    sum_logprobs=rounded(sums[i]),
                    score=rounded(sums[i] / length**search.length_penalty),
                    rank=i,
                    margin=rounded(sums[i] - floor),
                    group=0,
                    diversity_penalty=0.0,
                    fate=fate,
                    reason=reason,
                    arrival=rounded(float(pool.arrivals[i])) if search.do_sample else None,
                )
            )
        self._merge(merged, hits, numbers, sums, scores, length)
        self.running = [numbers[i] for i in ending.running.tolist()]
        return tuple(nodes)

    def _fate(self, i: int, hit: bool, kept: bool, entered: bool, full: bool) -> tuple[str, str]:
        search = self.search
        if not hit:
            return ("kept" if kept else "pruned"), ""
        if i >= search.beams:
            return "blocked", f"It ended outside the first {search.beams} of the pool."
        if entered:
            return "finished", ""
        if full and search.early_stopping is True:
            return "blocked", "The heap was full and early_stopping is true."
        return "finished_worse", "Its score is below those of all finished hypotheses."

    def _merge(
        self,
        merged: list[int],
        hits: list[bool],
        numbers: list[int],
        sums: list[float],
        scores: list[float],
        length: int,
    ) -> None:
        members: list[Finished | None] = []
        for i in merged:
            if i < self.search.beams:
                members.append(self.heap[i])
                continue
            at = i - self.search.beams
            if not (at < self.search.beams and hits[at] and numbers[at] >= 0):
                members.append(None)
                continue
            path = tuple(self.tree.path(numbers[at]))
            members.append(Finished(scores[at], sums[at], length, numbers[at], path))
        self.heap = members

    def detail(
        self, nodes: tuple[BeamNode, ...], best: float, worst: float, *, goes_on: bool
    ) -> BeamDetail:
        """Return the step's record."""
        full = all(self.heap)
        heap = tuple(
            Hypothesis(h.node, rounded(h.sum_logprobs), h.length, rounded(h.score), h.group)
            for h in self.heap
            if h is not None
        )
        return BeamDetail(
            pool=nodes,
            heap=heap,
            best_running=rounded(best) if float(self.search.sums[0]) > IMPOSSIBLE else None,
            worst_finished=rounded(worst) if full else None,
            stopping=not goes_on,
            winner_node_id=None if goes_on or self.heap[0] is None else self.heap[0].node,
        )

    def best(self, nodes: tuple[BeamNode, ...], *, goes_on: bool) -> list[int]:
        """Return the new tokens of the best hypothesis: the winner when the search has ended."""
        top = self.heap[0]
        if not goes_on and top is not None:
            return list(top.ids)
        leader = best_kept(nodes)
        if top is not None and top.score >= leader.score:
            return list(top.ids)
        return self.tree.path(leader.node_id)


def beam_loop(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    *,
    recorder: Recorder,
    generator: torch.Generator,
    **model_kwargs: Any,
) -> Generator[Step, None, BeamOutput]:
    """Search with ``num_beams`` beams until nothing better can be found.

    Args:
        model: a generation model whose cache can be reordered.
        input_ids: (num_beams, length) one prompt, repeated.
        logits_processor: applied to log-probabilities, as transformers does in beam search.
        stopping_criteria: asked about every candidate of the pool.
        generation_config: num_beams, length_penalty, early_stopping, do_sample,
            num_return_sequences.
        recorder: makes the records.
        generator: the run's own random numbers; unused without sampling.
        model_kwargs: as generate() prepared them.

    Yields:
        One Step a forward pass; its text is the best hypothesis so far and may revise the last.

    Returns:
        The ``num_return_sequences`` best hypotheses.
    """
    config, prompt, at_start = generation_config, input_ids[:1], dict(model_kwargs)
    forward = Forward(model, config, model_kwargs)
    search = BeamSearch(input_ids, config)
    record, writer = BeamRecord(search), StepWriter(recorder)
    goes_on = True
    while goes_on:
        # 1. Processed log-probabilities of every beam.
        logits = forward.last_logits(forward(search.ids), input_ids.device)
        seen = recorder.observe(torch.log_softmax(logits, dim=-1), search.ids, logits_processor)
        seen.logsumexp = logits.logsumexp(-1)
        vocab = seen.scores.shape[-1]
        # 2. The pool, who of it has ended, who goes on.
        pool = search.choose(seen.scores, generator)
        candidates = search.extended(pool, vocab)
        ending = search.decide(pool, stopping_criteria(candidates, None))
        nodes = record.update(pool, ending, seen, vocab)
        parents = pool.flat[ending.running] // vocab
        search.ids = candidates[ending.running]
        forward.model_kwargs["past_key_values"].reorder_cache(parents)
        # 3. The stopping test, then the record.
        best, worst = search.test()
        goes_on = bool(search.goes_on(ending.hits))
        elapsed_s = recorder.elapsed_s()
        detail = record.detail(nodes, float(best), float(worst), goes_on=goes_on)
        text = record.best(nodes, goes_on=goes_on)
        leader = best_kept(nodes)
        row = writer.row(seen, _beam_of(leader, pool, vocab), leader.token_id)
        if not goes_on:
            criteria = logits_processor, stopping_criteria, config
            greedy = (
                None
                if config.do_sample
                else greedy_path(model, prompt, *criteria, at_start, tuple(text))
            )
            reason = _stop_reason(search, ending)
            detail = dataclasses.replace(detail, stop_reason=reason, greedy=greedy)
        yield writer.step(row, text, detail, elapsed_s)
    finished = [h for h in record.heap if h is not None][: config.num_return_sequences]
    # transformers takes padding of id 0 for none, and fills with the end mark instead.
    pad, eos = pad_of(config), config._eos_token_tensor
    return output(prompt, finished, pad if pad or eos is None else int(eos[0]))


def _beam_of(node: BeamNode, pool: Pool, vocab: int) -> int:
    return int(pool.flat[node.rank]) // vocab


def _stop_reason(search: BeamSearch, ending: Ending) -> str:
    if bool(ending.hits.all()):
        return "Every candidate has ended, by its length or another stopping rule."
    if search.early_stopping is True and bool(search.finished.all()):
        return f"early_stopping is true and {search.beams} hypotheses have finished."
    return "No open beam can beat the worst of the finished hypotheses any more."
