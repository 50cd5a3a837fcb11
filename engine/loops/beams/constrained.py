"""Constrained beam search: the text must contain given words (Anderson et al. 2017, 1612.00576).

Hypotheses are sorted into banks by their progress with the forced words, and the beam is filled
from all banks in turn (Post & Vilar 2018, 1804.06609). As in the last transformers release with
this search, words in the prompt already count.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from engine.loops.beams.groups import BeamGroup, GroupSearch, run_group_search
from engine.loops.beams.step_record import (
    IMPOSSIBLE_SUM,
    PROMPT_NODE,
    BeamOutput,
    BeamTree,
    ProcessedBeams,
    padding_id,
)
from engine.loops.recorder import Recorder, round_decimals
from engine.trace.details import BeamNode
from engine.trace.records import Step

_BANK_WEIGHT = 100

ForcedWords = tuple[tuple[tuple[int, ...], ...], ...]
"""Per forced word its alternatives, each a tuple of ids."""


def normalize_force_words(force_words_ids: Sequence[Sequence[Any]]) -> ForcedWords:
    """Convert [[9, 11], [33]] and [[[9, 11], [40]], [33]] to one form."""
    return tuple(
        tuple(tuple(ids) for ids in word) if not isinstance(word[0], int) else (tuple(word),)
        for word in force_words_ids
    )


@dataclass(frozen=True)
class ConstraintProgress:
    """Progress of a sequence with the forced words."""

    words: ForcedWords
    pending: tuple[int, ...]
    """Words not started, in the order in which they are tried."""
    current: int | None = None
    """The word in progress."""
    prefix: tuple[int, ...] = ()
    """Ids of it so far."""

    @classmethod
    def from_ids(cls, words: ForcedWords, ids: Sequence[int]) -> ConstraintProgress:
        """Return the progress of a whole sequence."""
        progress = cls(words, tuple(range(len(words))))
        for token_id in ids:
            if progress.is_complete:
                break
            progress = progress.advance_with(token_id)
        return progress

    @property
    def is_complete(self) -> bool:
        """Whether every word is in the sequence."""
        return not self.pending and self.current is None

    @property
    def done(self) -> int:
        """Number of complete words."""
        return len(self.words) - len(self.pending) - (self.current is not None)

    @property
    def bank(self) -> int:
        """Bank number: the longest word's length per complete word, plus ids of the current one."""
        longest = max(len(ids) for word in self.words for ids in word)
        if self.current is None:
            return self.done * longest
        height = max(len(ids) for ids in self.words[self.current])
        return self.done * longest + longest - (height - len(self.prefix))

    def next_ids(self) -> list[int]:
        """Return the ids that make progress, without duplicates."""
        begun = self.pending if self.current is None else (self.current,)
        return list(dict.fromkeys(i for word in begun for i in self._word_next_ids(word)))

    def advance_with(self, token_id: int) -> ConstraintProgress:
        """Return the progress with one more id."""
        if self.is_complete:
            return self
        if self.current is not None:
            if token_id not in self._word_next_ids(self.current):
                # The interrupted word starts over after the others.
                return replace(self, pending=(*self.pending, self.current), current=None, prefix=())
            return self._with_word(self.current, self.pending, (*self.prefix, token_id))
        for word in self.pending:
            if token_id in self._word_next_ids(word):
                rest = tuple(other for other in self.pending if other != word)
                return self._with_word(word, rest, (token_id,))
        return self

    def _word_next_ids(self, word: int) -> list[int]:
        n = len(self.prefix)
        return [ids[n] for ids in self.words[word] if len(ids) > n and ids[:n] == self.prefix]

    def _with_word(
        self, word: int, pending: tuple[int, ...], prefix: tuple[int, ...]
    ) -> ConstraintProgress:
        finished = prefix in self.words[word]
        return replace(
            self,
            pending=pending,
            current=None if finished else word,
            prefix=() if finished else prefix,
        )


@dataclass
class ConstrainedCandidate:
    """A candidate continuation, from the pool or added because it advances a word."""

    beam: int
    token_id: int
    total: float
    logprob: float
    progress: ConstraintProgress
    rank: int
    """Rank in the pool; added candidates rank after it."""


class ConstrainedGroup(BeamGroup):
    """A beam group filled from the banks in turn.

    Args:
        prompt: (1, length) ids.
        size: beams.
        config: as generate() prepared it.
        words: the forced words.
    """

    def __init__(self, prompt: torch.Tensor, size: int, config: Any, words: ForcedWords) -> None:
        super().__init__(0, prompt, size, config, BeamTree())
        self.words = words
        self.numbers: dict[int, int] = {}
        """Rank in the last pool -> node."""

    def advance(self, seen: ProcessedBeams, charged: dict[int, tuple[int, ...]]) -> list[BeamNode]:
        """Take one step on (size, vocab) processed log-probabilities; return the pool."""
        del charged
        totals = seen.scores + self.sums[:, None]
        vocab = totals.shape[-1]
        top = totals.flatten().topk(max(2, 1 + len(self.eos)) * self.size)
        sums, flat = top.values.tolist(), top.indices.tolist()
        rows = self.ids.tolist()
        ranks = self._continuing_ranks(flat, vocab)
        choices = []
        for rank in ranks:
            beam, token = divmod(flat[rank], vocab)
            progress = ConstraintProgress.from_ids(self.words, [*rows[beam], token])
            logprob = float(seen.scores[beam, token])
            choices.append(ConstrainedCandidate(beam, token, sums[rank], logprob, progress, rank))
        choices += self._constraint_candidates(rows, choices, seen, totals, len(flat))
        kept = self._fill_from_banks(choices)
        nodes = self._make_nodes(flat, sums, seen, choices, kept, rows)
        self._keep_candidates(kept, sums[0])
        return nodes

    def add_open_beams(self) -> None:
        """Finish the open beams that contain every word; all open beams if those are too few."""
        if self.done:
            return
        rows = self.ids.tolist()
        holding = [ConstraintProgress.from_ids(self.words, row).is_complete for row in rows]
        some = self.wanted <= sum(holding)
        for total, node, holds in zip(self.sums.tolist(), self.nodes, holding, strict=True):
            if node >= 0 and holds:
                self.heap.add(self._finish_beam(total, node, self.length))
        for total, node, holds in zip(self.sums.tolist(), self.nodes, holding, strict=True):
            if node >= 0 and not holds and not some:
                self.heap.add(self._finish_beam(total, node, self.length))

    def _constraint_candidates(
        self,
        rows: list[list[int]],
        choices: list[ConstrainedCandidate],
        seen: ProcessedBeams,
        totals: torch.Tensor,
        after: int,
    ) -> list[ConstrainedCandidate]:
        """Return continuations that advance a word and are not among the pool's best."""
        known = {(*rows[c.beam], c.token_id) for c in choices}
        added: list[ConstrainedCandidate] = []
        for beam, row in enumerate(rows):
            progress = ConstraintProgress.from_ids(self.words, row)
            for token in [] if progress.is_complete else progress.next_ids():
                if (*row, token) in known:
                    continue
                known.add((*row, token))
                total, logprob = float(totals[beam, token]), float(seen.scores[beam, token])
                if total == -math.inf:
                    continue  # removed: it would take the place of an open beam
                later = progress.advance_with(token)
                added.append(
                    ConstrainedCandidate(beam, token, total, logprob, later, after + len(added))
                )
        return added

    def _fill_from_banks(self, choices: list[ConstrainedCandidate]) -> list[ConstrainedCandidate]:
        """Return ``size`` choices: the best of every bank, then the second best, and so on."""
        if len(choices) == self.size:
            return choices
        # On the CPU: the numbers are Python floats already.
        banks = torch.tensor([c.progress.bank for c in choices], device="cpu")
        totals = torch.tensor([c.total for c in choices], device="cpu")
        order = (banks * _BANK_WEIGHT + totals).sort(descending=True).indices.tolist()
        places, previous, place = [], None, 0
        for i in order:
            place = place + 1 if choices[i].progress.bank == previous else 0
            previous = choices[i].progress.bank
            places.append(place)
        # A stable sort, so equal ranks keep the order of the banks.
        turns = np.argsort(places, kind="mergesort")
        return [choices[order[i]] for i in turns[: self.size]]

    def _make_nodes(
        self,
        flat: list[int],
        sums: list[float],
        seen: ProcessedBeams,
        choices: list[ConstrainedCandidate],
        kept: list[ConstrainedCandidate],
        rows: list[list[int]],
    ) -> list[BeamNode]:
        """Return the nodes of the pool and of the added candidates, with their fates."""
        vocab = seen.scores.shape[-1]
        by_rank = {choice.rank: choice for choice in choices}
        open_sums = [choice.total for choice in kept if choice.total > IMPOSSIBLE_SUM]
        floor = min(open_sums, default=sums[0])
        self.origin, self.numbers, nodes = {}, {}, []
        for rank in range(max(len(flat), 1 + max(by_rank))):
            choice = by_rank.get(rank)
            if choice is None:
                beam, token = divmod(flat[rank], vocab)
                logprob = float(seen.scores[beam, token])
                progress = ConstraintProgress.from_ids(self.words, rows[beam])
                choice = ConstrainedCandidate(beam, token, sums[rank], logprob, progress, rank)
            parent = self.nodes[choice.beam]
            if choice.total <= IMPOSSIBLE_SUM or parent < PROMPT_NODE:
                continue
            node = self.numbers[rank] = self.tree.add(parent, choice.token_id)
            self.origin[node] = choice.beam
            fate, reason = self._judge_candidate(
                choice, node, any(choice is k for k in kept), len(flat)
            )
            nodes.append(
                BeamNode(
                    node_id=node,
                    parent_id=parent,
                    token_id=choice.token_id,
                    logprob=round_decimals(choice.logprob),
                    sum_logprobs=round_decimals(choice.total),
                    score=round_decimals(self.heap.score(choice.total, self.length + 1)),
                    rank=rank,
                    margin=round_decimals(choice.total - floor),
                    group=0,
                    diversity_penalty=0.0,
                    fate=fate,
                    reason=reason,
                )
            )
        return nodes

    def _judge_candidate(
        self, choice: ConstrainedCandidate, node: int, kept: bool, pool: int
    ) -> tuple[str, str]:
        words = f"{choice.progress.done} of {len(self.words)} forced words"
        if choice.rank < pool and choice.token_id in self.eos:
            if choice.rank >= self.size or choice.progress.is_complete:
                return self._fate(choice.rank, choice.token_id, choice.total, kept, node)
            return "blocked", f"It ended with {words}."
        why = f"Added because it serves a forced word; {words}." if choice.rank >= pool else words
        return ("kept" if kept else "pruned"), why

    def _keep_candidates(self, kept: list[ConstrainedCandidate], best: float) -> None:
        device = self.ids.device
        self.parents = torch.tensor([choice.beam for choice in kept], device=device)
        tokens = torch.tensor([[choice.token_id] for choice in kept], device=device)
        self.ids = torch.cat([self.ids[self.parents], tokens], dim=-1)
        self.sums = torch.tensor([choice.total for choice in kept], device=device)
        self.nodes = [self.numbers.get(choice.rank, PROMPT_NODE - 1) for choice in kept]
        self.reachable = self.heap.reachable(best, self.length)
        self.done = self.heap.is_done(best, self.length) or self.is_exhausted


def constrained_beam_loop(
    model: Any,
    input_ids: torch.Tensor,
    logits_processor: Any,
    stopping_criteria: Any,
    generation_config: Any,
    *,
    recorder: Recorder,
    generator: torch.Generator,
    force_words_ids: Sequence[Sequence[Any]],
    **model_kwargs: Any,
) -> Generator[Step, None, BeamOutput]:
    """Beam search whose hypotheses must contain all forced words.

    Args:
        model: a generation model whose cache can be reordered.
        input_ids: (num_beams, length) one prompt, repeated.
        logits_processor: applied to log-probabilities.
        stopping_criteria: the search ends when all open beams meet them.
        generation_config: length_penalty, early_stopping, num_return_sequences.
        recorder: records every step.
        generator: unused.
        force_words_ids: per word its ids, or a list of alternatives.
        model_kwargs: as generate() prepared them.

    Yields:
        One Step per forward pass. Its text is the best hypothesis and may revise the previous one.

    Returns:
        The ``num_return_sequences`` best hypotheses.
    """
    del generator
    group = ConstrainedGroup(
        input_ids[:1], input_ids.shape[0], generation_config, normalize_force_words(force_words_ids)
    )
    search = GroupSearch(
        [group], lambda group, taken: logits_processor, recorder, padding_id(generation_config)
    )
    rules = logits_processor, stopping_criteria, generation_config
    return (yield from run_group_search(model, input_ids, *rules, search, model_kwargs))
