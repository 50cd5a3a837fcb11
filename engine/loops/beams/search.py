"""Beam search and beam-search multinomial sampling (transformers 5.23 ``_beam_search``)."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import math
from collections.abc import Generator, Sequence
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
    FinishedBeam,
    ProcessedBeams,
    SearchDecision,
    StepWriter,
    StopTest,
    make_node,
    pack_output,
)
from engine.loops.forward import Forward
from engine.loops.recorder import Recorder, round_significant
from engine.loops.rows import check_stopping
from engine.loops.special_ids import eos_ids, padding_id
from engine.messages import Message
from engine.models.model_types import GenerationConfig, Model, Processors, StoppingCriteriaList
from engine.trace.details import BeamNode
from engine.trace.records import Step


def beam_loop(
    model: Model,
    input_ids: torch.Tensor,
    logits_processor: Processors,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
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
    forward = Forward(model, generation_config, model_kwargs)
    search = BeamSearch(input_ids, generation_config)
    record = SearchRecord(search, StepWriter(recorder, forward))
    while search.goes_on:
        # 1. The log-probabilities of every token after every beam, through the processors.
        logits = forward.last_logits(forward(search.ids), search.ids.device)
        scores = record.process(logits, logits_processor)
        # 2. The pool: the best sums over all beams and tokens, or a sample without replacement.
        pool = search.choose(scores, generator)
        # 3. Candidates that end join the heap of hypotheses; the best others are the next beams.
        # Criteria see the whole pool, not the beams: none may keep a state per row.
        candidates = search.extend_sequences(pool)
        outcome = search.decide(pool, candidates, check_stopping(stopping_criteria, candidates))
        # The cache follows the beams; without this every beam continues another's text.
        forward.reorder(pool.parents[outcome.running])
        # 4. The stopping test: can a beam still beat the worst hypothesis of the heap?
        search.test(outcome)
        yield from record.read_step(pool, outcome)
    yield from record.measure_greedy_path(input_ids[:1], (logits_processor, stopping_criteria))
    return record.output(input_ids[:1])


class SearchRecord:
    """The plain side of a search: node numbers, heap members, fates and reasons.

    If fewer texts are possible than beams, transformers fills up and returns placeholders. They are
    no candidates and no tree nodes; their numbers are below PROMPT_NODE.
    """

    processed: ProcessedBeams
    step: Step

    def __init__(self, search: BeamSearch, writer: StepWriter) -> None:
        self.search, self.writer, self.tree = search, writer, writer.tree
        self.placeholders: list[tuple[int, ...]] = []
        self.full = False
        self.running = [PROMPT_NODE] * search.beams
        self.heap: list[FinishedBeam | None] = [None] * search.beams
        self.greedy = GreedyTracker()
        self.decision: SearchDecision | None = None
        """The newest decision that is not in a Step yet."""

    def process(self, logits: torch.Tensor, processors: Processors) -> torch.Tensor:
        """Return (beams, vocab) processed log-probabilities of the running beams."""
        if self.decision is None:
            self.writer.check_finite(logits)
        if self.search.beams > 1:
            self.processed = self.writer.process(logits, self.search.ids, processors)
            return self.processed.scores
        # With one beam, generate() is greedy search, whose processors run over logits.
        scores, stages = self.writer.recorder.apply_processors(logits, self.search.ids, processors)
        scores = scores - logits.logsumexp(-1, keepdim=True)
        self.processed = ProcessedBeams(logits, logits, scores, stages)
        return scores

    def read_step(self, pool: CandidatePool, outcome: StepOutcome) -> Generator[Step, None, None]:
        """Yield the Step of a decision, unless only placeholders go on after it."""
        search = self.search
        nodes = self._add_pool(pool, outcome)
        if self.decision is None:
            if not search.do_sample:
                self.greedy.track_step(
                    self.processed.scores, pool.flat, outcome.running, outcome.hits
                )
            elapsed_s = self.writer.recorder.elapsed_s()
            beams: list[int] = pool.parents.tolist()
            origin = dict(zip(self.numbers, beams, strict=True))
            self.decision = SearchDecision(nodes, {0: self.processed}, origin, elapsed_s)
        # transformers continues its placeholders to the end; these steps are not shown.
        if search.goes_on and search.is_exhausted:
            return
        found = self.finished_hypotheses
        test = StopTest(
            float(search.best) if float(search.sums[0]) > IMPOSSIBLE_SUM else None,
            float(search.worst) if len(found) == search.beams else None,
            "" if search.goes_on else self._stop_reason(outcome),
        )
        self.step, self.decision = self.writer.write(self.decision, found, test), None
        yield self.step

    def measure_greedy_path(
        self, prompt: torch.Tensor, rules: tuple[Processors, StoppingCriteriaList]
    ) -> Generator[Step, None, None]:
        """Yield the last Step again with the greedy path; a sampled search has none."""
        if not self.search.do_sample:
            yield from measure_greedy_path(
                self.writer, self.step, self.writer.forward, prompt, rules, self.greedy
            )

    def output(self, prompt: torch.Tensor) -> BeamOutput:
        """Return the best hypotheses, placeholders included, after the (1, length) prompt."""
        config = self.writer.forward.generation_config
        pad, ends = padding_id(config), eos_ids(config)
        # transformers treats a padding id of 0 as missing and pads with end-of-sequence.
        fill = ends[0] if ends and not pad else pad
        heap = self.heap[: config.num_return_sequences]
        longest = max(len(h.ids) for h in heap if h is not None)
        best = [h if h and h.node >= 0 else _fill_sequence(h, longest, fill, ends) for h in heap]
        return pack_output(prompt, best, fill)

    @property
    def finished_hypotheses(self) -> list[FinishedBeam]:
        """The finished hypotheses that are tree nodes, best first."""
        return [h for h in self.heap if h is not None and h.node >= 0]

    def _add_pool(self, pool: CandidatePool, outcome: StepOutcome) -> list[BeamNode]:
        """Add a pool to the tree and the heap; return its nodes with their fates."""
        search, heap_was_full = self.search, self.full
        sums: list[float] = pool.scores.double().tolist()
        logprobs: list[float] = self.processed.scores.flatten()[pool.flat].tolist()
        hits: list[bool] = outcome.hits.tolist()
        running: list[int] = outcome.running.tolist()
        merged: list[int] = outcome.merged.tolist()
        scores: list[float] = outcome.scores.tolist()
        parents: list[int] = pool.parents.tolist()
        tokens: list[int] = pool.tokens.tolist()
        kept = set(running)
        # ``merged`` counts through heap and pool: what lies behind the heap has just entered it.
        entered = {i - search.beams for i in merged if i >= search.beams}
        open_sums = [sums[i] for i in kept if not hits[i] and sums[i] > IMPOSSIBLE_SUM]
        floor = min(open_sums, default=sums[0])
        nodes, self.numbers = list[BeamNode](), list[int]()
        for i, (beam, token) in enumerate(zip(parents, tokens, strict=True)):
            parent = self.running[beam]
            if sums[i] <= IMPOSSIBLE_SUM or parent < PROMPT_NODE:
                self.numbers.append(self._add_placeholder((*self._token_path(parent), token)))
                continue
            self.numbers.append(self.tree.add(parent, token))
            fate, reason = self._fate(i, hits[i], i in kept, i in entered, heap_was_full)
            nodes.append(
                make_node(
                    node_id=self.numbers[-1],
                    parent_id=parent,
                    token_id=token,
                    logprob=logprobs[i],
                    total=sums[i],
                    score=sums[i] / search.length**search.length_penalty,
                    rank=i,
                    floor=floor,
                    group=0,
                    diversity_penalty=0.0,
                    fate=fate,
                    reason=reason,
                    arrival=self._arrival(pool, i),
                )
            )
        self._merge_heap(merged, hits, sums, scores)
        self.running = [self.numbers[i] for i in running]
        self.full = bool(search.finished.all())
        return nodes

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
            return "blocked", Message(
                "It ended outside the first {beams} of the pool.", beams=search.beams
            )
        if entered:
            return "finished", ""
        if full and search.early_stopping is True:
            return "blocked", "The heap was full and early_stopping is true."
        return "finished_worse", "Its score is below those of all finished hypotheses."

    def _merge_heap(
        self, merged: list[int], hits: list[bool], sums: list[float], scores: list[float]
    ) -> None:
        members: list[FinishedBeam | None] = []
        for i in merged:
            if i < self.search.beams:
                members.append(self.heap[i])
                continue
            at = i - self.search.beams
            path = tuple(self._token_path(self.numbers[at]))
            ended = at < self.search.beams and hits[at]
            number = self.numbers[at] if ended else self._add_placeholder(path)
            members.append(FinishedBeam(scores[at], sums[at], self.search.length, number, path))
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

    def _stop_reason(self, outcome: StepOutcome) -> str:
        search = self.search
        if search.is_exhausted:
            return NO_OPEN_BEAM
        if bool(outcome.hits.all()):
            return "Every candidate has ended, by its length or another stopping rule."
        if search.early_stopping is True and bool(search.finished.all()):
            return Message(
                "early_stopping is true and {n} hypotheses have finished.", n=search.beams
            )
        return NO_BETTER_BEAM


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
