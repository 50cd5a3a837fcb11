"""Beam search and beam-search multinomial sampling (transformers 5.23 ``_beam_search``)."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from engine.loops.beams.greedy_path import GreedyTracker, measure_greedy_path
from engine.loops.beams.search_state import BeamSearch, CandidatePool, StepOutcome
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
    pack_output,
    padding_id,
    process_logprobs,
)
from engine.loops.forward import Forward
from engine.loops.recorder import Recorder, round_decimals, round_significant
from engine.trace.details import BeamDetail, BeamNode, Hypothesis
from engine.trace.records import Step


class BeamSearchRecord:
    """The plain side of a search: node numbers, heap members, fates and reasons.

    If fewer texts are possible than beams, transformers fills up and returns placeholders. They are
    no candidates and no tree nodes; their numbers are below PROMPT.
    """

    def __init__(self, search: BeamSearch) -> None:
        self.tree = BeamTree()
        self.placeholders: list[tuple[int, ...]] = []
        self.full = False
        self.search = search
        self.running = [PROMPT_NODE] * search.beams
        self.heap: list[FinishedBeam | None] = [None] * search.beams

    def update(
        self, pool: CandidatePool, ending: StepOutcome, seen: ProcessedBeams, vocab: int
    ) -> tuple[BeamNode, ...]:
        """Record a decision and return the pool's nodes; call before the state grows."""
        search, heap_was_full = self.search, self.full
        flat, sums = pool.flat.tolist(), pool.scores.double().tolist()
        logprobs = seen.scores.flatten()[pool.flat].tolist()
        hits, kept = ending.hits.tolist(), set(ending.running.tolist())
        merged, scores = ending.merged.tolist(), ending.scores.tolist()
        length = search.ids.shape[1] + 1 - search.prompt_length
        entered = {i - search.beams for i in merged if i >= search.beams}
        open_sums = [sums[i] for i in kept if not hits[i] and sums[i] > IMPOSSIBLE_SUM]
        floor = min(open_sums, default=sums[0])
        nodes, numbers = [], []
        for i, place in enumerate(flat):
            parent, token = self.running[place // vocab], place % vocab
            if sums[i] <= IMPOSSIBLE_SUM or parent < PROMPT_NODE:
                numbers.append(self._add_placeholder((*self._token_path(parent), token)))
                continue
            numbers.append(self.tree.add(parent, token))
            fate, reason = self._fate(i, hits[i], i in kept, i in entered, heap_was_full)
            nodes.append(
                BeamNode(
                    node_id=numbers[-1],
                    parent_id=parent,
                    token_id=token,
                    logprob=round_decimals(logprobs[i]),
                    sum_logprobs=round_decimals(sums[i]),
                    score=round_decimals(sums[i] / length**search.length_penalty),
                    rank=i,
                    margin=round_decimals(sums[i] - floor),
                    group=0,
                    diversity_penalty=0.0,
                    fate=fate,
                    reason=reason,
                    arrival=self._arrival(pool, i),
                )
            )
        self._merge_heap(merged, hits, numbers, sums, scores, length)
        self.running = [numbers[i] for i in ending.running.tolist()]
        self.full = bool(search.finished.all())
        return tuple(nodes)

    def _arrival(self, pool: CandidatePool, i: int) -> float | None:
        """Return a candidate's arrival time in the race, None if not sampled or infinite."""
        arrival = float(pool.arrivals[i])
        drawn = self.search.do_sample and math.isfinite(arrival)
        return round_significant(arrival) if drawn else None

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

    def _merge_heap(
        self,
        merged: list[int],
        hits: list[bool],
        numbers: list[int],
        sums: list[float],
        scores: list[float],
        length: int,
    ) -> None:
        members: list[FinishedBeam | None] = []
        for i in merged:
            if i < self.search.beams:
                members.append(self.heap[i])
                continue
            at = i - self.search.beams
            path = tuple(self._token_path(numbers[at]))
            ended = at < self.search.beams and hits[at]
            number = numbers[at] if ended else self._add_placeholder(path)
            members.append(FinishedBeam(scores[at], sums[at], length, number, path))
        self.heap = members

    def _add_placeholder(self, path: tuple[int, ...]) -> int:
        """Add a placeholder with these new tokens and return its number."""
        self.placeholders.append(path)
        return PROMPT_NODE - len(self.placeholders)

    def _token_path(self, number: int) -> Sequence[int]:
        """Return the new tokens of a node or placeholder."""
        if number >= PROMPT_NODE:
            return self.tree.path(number)
        return self.placeholders[PROMPT_NODE - 1 - number]

    @property
    def finished_hypotheses(self) -> list[FinishedBeam]:
        """The finished hypotheses that are tree nodes, best first."""
        return [h for h in self.heap if h is not None and h.node >= 0]

    def detail(
        self, nodes: tuple[BeamNode, ...], best: float, worst: float, *, goes_on: bool
    ) -> BeamDetail:
        """Return the step's record."""
        found = self.finished_hypotheses
        full = len(found) == self.search.beams
        heap = tuple(
            Hypothesis(
                h.node, round_decimals(h.sum_logprobs), h.length, round_decimals(h.score), h.group
            )
            for h in found
        )
        return BeamDetail(
            pool=nodes,
            heap=heap,
            best_running=round_decimals(best)
            if float(self.search.sums[0]) > IMPOSSIBLE_SUM
            else None,
            worst_finished=round_decimals(worst) if full else None,
            stopping=not goes_on,
            winner_node_id=None if goes_on or not found else found[0].node,
        )

    def best(self, nodes: tuple[BeamNode, ...], *, goes_on: bool) -> list[int]:
        """Return the new tokens of the best hypothesis; at the end, of the winner."""
        found, leader = self.finished_hypotheses, best_kept_node(nodes)
        if not goes_on:
            check_has_hypothesis(found)
            return list(found[0].ids)
        if found and found[0].score >= leader.score:
            return list(found[0].ids)
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
    """Search with ``num_beams`` beams until no better hypothesis is possible.

    Args:
        model: a generation model whose cache can be reordered.
        input_ids: (num_beams, length) one prompt, repeated.
        logits_processor: applied to log-probabilities as in transformers; with one beam to logits,
            because that is greedy search there.
        stopping_criteria: checked for every candidate of the pool.
        generation_config: num_beams, length_penalty, early_stopping, do_sample,
            num_return_sequences.
        recorder: records every step.
        generator: the run's random generator; unused without sampling.
        model_kwargs: as generate() prepared them.

    Yields:
        One Step per forward pass. Its text is the best hypothesis and may revise the previous one.

    Returns:
        The ``num_return_sequences`` best hypotheses.
    """
    config, prompt, at_start = generation_config, input_ids[:1], dict(model_kwargs)
    forward, search = Forward(model, config, model_kwargs), BeamSearch(input_ids, config)
    record, writer = BeamSearchRecord(search), StepWriter(recorder)
    trail, goes_on, rules = GreedyTracker(), True, (logits_processor, stopping_criteria)
    while goes_on:
        before = forward.passes
        made = last = _decide_step(forward, search, record, recorder, generator, rules)
        check_finite(made.seen.logits, writer.index)
        ending = made.ending
        goes_on = bool(search.can_continue(ending.hits))
        if not config.do_sample:
            trail.track_step(made.seen.scores, made.pool.flat, ending.running, ending.hits)
        elapsed_s = recorder.elapsed_s()
        while goes_on and search.is_exhausted:
            # transformers continues its placeholders to the end; these steps are not shown.
            last = _decide_step(forward, search, record, recorder, generator, rules)
            goes_on = bool(search.can_continue(last.ending.hits))
        best, worst = last.test
        detail = record.detail(made.nodes, float(best), float(worst), goes_on=goes_on)
        text = record.best(made.nodes, goes_on=goes_on)
        row = writer.row(made.seen, *_best_choice(made))
        if not goes_on:
            detail = replace(detail, stop_reason=_stop_reason(search, last.ending))
        step = writer.step(row, text, detail, elapsed_s)
        yield (step := replace(step, forward_passes=forward.passes - before))
    if not config.do_sample:
        path = (model, prompt, logits_processor, stopping_criteria, config, at_start)
        yield from measure_greedy_path(recorder, step, *path, tuple(text), trail)
    return _make_output(prompt, record, config)


@dataclass(frozen=True)
class SearchDecision:
    """The inputs and outcome of one search step."""

    seen: ProcessedBeams
    pool: CandidatePool
    ending: StepOutcome
    nodes: tuple[BeamNode, ...]
    test: tuple[torch.Tensor, torch.Tensor]
    """Best reachable score and worst finished score."""


def _decide_step(
    forward: Forward,
    search: BeamSearch,
    record: BeamSearchRecord,
    recorder: Recorder,
    generator: torch.Generator,
    rules: tuple[Any, Any],
) -> SearchDecision:
    """Take one step of the search; ``rules`` are the processors and the stopping criteria."""
    processors, stopping_criteria = rules
    # 1. Processed log-probabilities of every beam.
    logits = forward.last_logits(forward(search.ids), search.ids.device)
    seen, vocab = _process_beams(recorder, logits, search.ids, processors), logits.shape[-1]
    # 2. The pool, its finished candidates and the running beams.
    pool = search.choose(seen.scores, generator)
    candidates = search.extend_sequences(pool, vocab)
    ending = search.decide(pool, stopping_criteria(candidates, None))
    nodes = record.update(pool, ending, seen, vocab)
    search.ids = candidates[ending.running]
    forward.reorder(pool.flat[ending.running] // vocab)
    # 3. The stopping test.
    return SearchDecision(seen, pool, ending, nodes, search.test())


def _process_beams(
    recorder: Recorder, logits: torch.Tensor, ids: torch.Tensor, processors: Any
) -> ProcessedBeams:
    """Run the processors over log-probabilities; with one beam over logits, as generate() does."""
    if len(ids) > 1:
        return process_logprobs(recorder, logits, ids, processors)
    scores, stages = recorder.apply_processors(logits, ids, processors)
    return ProcessedBeams(logits, logits, scores - logits.logsumexp(-1, keepdim=True), stages)


def _make_output(prompt: torch.Tensor, record: BeamSearchRecord, config: Any) -> BeamOutput:
    pad, eos = padding_id(config), config._eos_token_tensor
    # transformers treats a padding id of 0 as missing and pads with end-of-sequence.
    fill, ends = pad if pad or eos is None else int(eos[0]), () if eos is None else eos.tolist()
    heap = record.heap[: config.num_return_sequences]
    longest = max(len(h.ids) for h in heap if h is not None)
    best = [h if h and h.node >= 0 else _fill_sequence(h, longest, fill, ends) for h in heap]
    return pack_output(prompt, best, fill)


def _fill_sequence(
    placeholder: FinishedBeam | None, longest: int, fill: int, ends: Sequence[int]
) -> FinishedBeam:
    """Return the sequence for an unfilled place: a placeholder, or only padding.

    It is padded, then cut after its first end-of-sequence id, like any row of generate()'s output.
    """
    ids = () if placeholder is None else placeholder.ids
    ids = (*ids, *[fill] * (longest - len(ids)))
    end = next((n for n, token in enumerate(ids, 1) if token in ends), longest)
    return FinishedBeam(-math.inf, -math.inf, end, PROMPT_NODE - 1, ids[:end])


def _best_choice(made: SearchDecision) -> tuple[int, int]:
    """Return the beam and the token of the best kept node."""
    leader, vocab = best_kept_node(made.nodes), made.seen.scores.shape[-1]
    return int(made.pool.flat[leader.rank]) // vocab, leader.token_id


def _stop_reason(search: BeamSearch, ending: StepOutcome) -> str:
    if search.is_exhausted:
        return NO_OPEN_BEAM
    if bool(ending.hits.all()):
        return "Every candidate has ended, by its length or another stopping rule."
    if search.early_stopping is True and bool(search.finished.all()):
        return f"early_stopping is true and {search.beams} hypotheses have finished."
    return NO_BETTER_BEAM
