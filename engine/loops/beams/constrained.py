"""Constrained beam search: the text must contain given words (Anderson et al. 2017, 1612.00576).

Hypotheses are sorted into banks by their progress with the forced words, and the beam is filled
from all banks in turn (Post & Vilar 2018, 1804.06609). As in the last transformers release with
this search, words in the prompt already count.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from engine.loops.beams.groups import BeamGroup, Continuation, run_group_search
from engine.loops.beams.step_record import BeamOutput, StepWriter
from engine.loops.forward import Forward
from engine.loops.recorder import Recorder
from engine.messages import Message
from engine.models.model_types import GenerationConfig, Model, Processors, StoppingCriteriaList
from engine.trace.records import Step

# The number of transformers: banks come first as long as sums differ by less than 100 nats.
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
            # Several alternatives may share the prefix; the first that is complete counts.
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


class ConstrainedGroup(BeamGroup):
    """A beam group filled from the banks in turn.

    Args:
        prompt: (1, length) ids.
        size: beams.
        config: as generate() prepared it.
        writer: has the tree that numbers the nodes.
        words: the forced words.
    """

    def __init__(
        self,
        prompt: torch.Tensor,
        size: int,
        config: GenerationConfig,
        writer: StepWriter,
        words: ForcedWords,
    ) -> None:
        super().__init__(0, prompt, size, config, writer)
        self.words = words
        self.progress: dict[int, ConstraintProgress] = {}
        """Rank in the last pool -> progress with the words."""
        self.pool_size = 0
        """Candidates that the last pool had before those that serve a word."""

    def add_open_beams(self) -> None:
        """Finish the open beams that contain every word; all open beams if those are too few."""
        if self.done:
            return
        rows: list[list[int]] = self.ids.tolist()
        holding = [ConstraintProgress.from_ids(self.words, row).is_complete for row in rows]
        some = self.num_return_sequences <= sum(holding)
        sums: list[float] = self.sums.tolist()
        open_beams = list(zip(sums, self.nodes, holding, strict=True))
        # Those that hold every word first: of equal scores, the heap returns the later one.
        for total, node, holds in sorted(open_beams, key=lambda beam: not beam[2]):
            if node >= 0 and (holds or not some):
                self.heap.add(self._finish_beam(total, node, self.length))

    def _choose_beams(
        self, pool: list[Continuation], scores: torch.Tensor, totals: torch.Tensor
    ) -> tuple[list[Continuation], list[Continuation]]:
        """Add the candidates that serve a forced word; fill the beams from the banks in turn."""
        rows: list[list[int]] = self.ids.tolist()
        self.pool_size, self.progress = len(pool), {}
        _, best = super()._choose_beams(pool, scores, totals)
        ranks = {c.rank for c in best}
        for c in pool:
            ids = [*rows[c.beam], c.token_id] if c.rank in ranks else rows[c.beam]
            self.progress[c.rank] = ConstraintProgress.from_ids(self.words, ids)
        added = self._serving_candidates(rows, best, scores, totals)
        return [*pool, *added], self._fill_from_banks([*best, *added])

    def _serving_candidates(
        self,
        rows: list[list[int]],
        best: list[Continuation],
        scores: torch.Tensor,
        totals: torch.Tensor,
    ) -> list[Continuation]:
        """Return continuations that advance a word and are not among the pool's best."""
        serving_rows = {(*rows[c.beam], c.token_id) for c in best}
        added: list[Continuation] = []
        for beam, row in enumerate(rows):
            progress = ConstraintProgress.from_ids(self.words, row)
            for token in [] if progress.is_complete else progress.next_ids():
                if (*row, token) in serving_rows:
                    continue
                serving_rows.add((*row, token))
                total, logprob = float(totals[beam, token]), float(scores[beam, token])
                if total == -math.inf:
                    continue  # removed: it would take the place of an open beam
                rank = self.pool_size + len(added)
                self.progress[rank] = progress.advance_with(token)
                added.append(Continuation(beam, token, total, logprob, rank))
        return added

    def _fill_from_banks(self, choices: list[Continuation]) -> list[Continuation]:
        """Return ``size`` choices: the best of every bank, then the second best, and so on."""
        if len(choices) == self.size:
            return choices
        # On the CPU: the numbers are Python floats already.
        banks = torch.tensor([self.progress[c.rank].bank for c in choices], device="cpu")
        totals = torch.tensor([c.total for c in choices], device="cpu")
        order = (banks * _BANK_WEIGHT + totals).sort(descending=True).indices.tolist()
        places, previous, place = list[int](), None, 0
        for i in order:
            place = place + 1 if banks[i] == previous else 0
            previous = banks[i]
            places.append(place)
        # A stable sort, so equal ranks keep the order of the banks.
        turns = np.argsort(places, kind="mergesort")
        return [choices[order[i]] for i in turns[: self.size]]

    def _fate(self, candidate: Continuation, kept: bool, node: int) -> tuple[str, str]:
        progress, added = self.progress[candidate.rank], candidate.rank >= self.pool_size
        words = Message("{done} of {n} forced words", done=progress.done, n=len(self.words))
        if not added and candidate.token_id in self.eos:
            if candidate.rank >= self.size or progress.is_complete:
                return super()._fate(candidate, kept, node)
            return "blocked", Message("It ended with {words}.", words=words)
        # An added candidate may be worse than everything pruned; the reason says why it is there.
        why = (
            Message("Added because it serves a forced word; {words}.", words=words)
            if added
            else words
        )
        return ("kept" if kept else "pruned"), why


def constrained_beam_loop(
    model: Model,
    input_ids: torch.Tensor,
    logits_processor: Processors,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
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
    forward = Forward(model, generation_config, model_kwargs)
    writer, words = StepWriter(recorder, forward), normalize_force_words(force_words_ids)
    group = ConstrainedGroup(input_ids[:1], input_ids.shape[0], generation_config, writer, words)
    rules = logits_processor, stopping_criteria
    return (
        yield from run_group_search(
            forward, [group], lambda earlier_tokens: logits_processor, rules, writer
        )
    )
