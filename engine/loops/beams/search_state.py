"""State and decisions of a beam search between two steps (transformers 5.23)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.loops.beams.step_record import has_only_placeholders
from engine.loops.exponential_race import draw_noise
from engine.loops.special_ids import eos_ids
from engine.models.model_types import GenerationConfig

_IMPOSSIBLE = -1e9


@dataclass
class CandidatePool:
    """The candidates of one step in the order the search considers them; tensors of length n."""

    scores: torch.Tensor
    """Sums of log-probabilities."""
    flat: torch.Tensor
    """beam * vocabulary + token."""
    arrivals: torch.Tensor
    """Arrivals e / p of the race, zeros if not sampled; infinite where p underflows."""
    vocab: int

    @property
    def parents(self) -> torch.Tensor:
        """(n,) beams that the candidates continue."""
        return self.flat // self.vocab

    @property
    def tokens(self) -> torch.Tensor:
        """(n,) tokens that they add."""
        return self.flat % self.vocab


@dataclass
class StepOutcome:
    """The outcome of a step: finished candidates and running beams; tensors."""

    hits: torch.Tensor
    """(n,) candidates that end here."""
    running: torch.Tensor
    """(beams,) pool indices of the running beams."""
    merged: torch.Tensor
    """(beams,) indices into heap + pool that form the new heap."""
    scores: torch.Tensor
    """(n,) length-penalised scores of the candidates for the heap."""


class BeamSearch:
    """The state of one search: running beams, heap, and flags of the stopping test.

    Args:
        input_ids: (beams, length) the prompt, once per beam.
        generation_config: as generate() prepared it.

    Attributes:
        ids: (beams, length) running beams.
        goes_on: whether another step follows.
        best: best score that a running beam can reach.
        worst: worst score of the heap.
    """

    best: torch.Tensor
    worst: torch.Tensor

    def __init__(self, input_ids: torch.Tensor, generation_config: GenerationConfig) -> None:
        config, device = generation_config, input_ids.device
        self.beams, self.prompt_length = input_ids.shape
        self.ids = input_ids
        # Enough for ``beams`` running beams even if every end-of-sequence id is among the best.
        self.pool_size = max(2, 1 + len(eos_ids(config))) * self.beams
        self.length_penalty = config.length_penalty
        # One beam is greedy search, which ends at its first end-of-sequence.
        self.early_stopping = True if self.beams == 1 else config.early_stopping
        self.do_sample, self.max_length = config.do_sample, config.max_length
        # Only the first beam may start: all rows hold the same prompt.
        self.sums = torch.full((self.beams,), _IMPOSSIBLE, dtype=torch.float32, device=device)
        self.sums[0] = 0
        self.heap_scores = torch.full(
            (self.beams,), _IMPOSSIBLE, dtype=torch.float32, device=device
        )
        self.finished = torch.zeros(self.beams, dtype=torch.bool, device=device)
        self.improvable = torch.ones((), dtype=torch.bool, device=device)
        self.goes_on = True

    @property
    def length(self) -> int:
        """New tokens of the running beams."""
        return self.ids.shape[1] - self.prompt_length

    @property
    def is_exhausted(self) -> bool:
        """Whether no running beam is possible, placeholders aside."""
        return has_only_placeholders(self.sums)

    def choose(self, scores: torch.Tensor, generator: torch.Generator) -> CandidatePool:
        """Return the pool of (beams, vocab) processed log-probabilities."""
        total, vocab = (scores + self.sums[:, None]).flatten(), scores.shape[-1]
        if not self.do_sample:
            # Sorted, so the first ``beams`` are the best; a sampled pool is in order of arrival.
            best = total.topk(self.pool_size)
            return CandidatePool(best.values, best.indices, torch.zeros_like(best.values), vocab)
        # torch.multinomial without replacement is the exponential race, in order of arrival.
        probs = total.softmax(-1)
        # Temperature acts on log-probabilities here and is not normalised again, as in transformers.
        noise = draw_noise(probs, generator)
        flat = (probs / noise).topk(self.pool_size).indices
        arrivals = noise[flat].double() / probs[flat].double()
        return CandidatePool(total[flat], flat, arrivals, vocab)

    def extend_sequences(self, pool: CandidatePool) -> torch.Tensor:
        """Return (n, length + 1) sequences of the candidates."""
        return torch.cat([self.ids[pool.parents], pool.tokens[:, None]], dim=-1)

    def decide(
        self, pool: CandidatePool, candidates: torch.Tensor, hits: torch.Tensor
    ) -> StepOutcome:
        """Choose running beams and new finished hypotheses; the running beams grow.

        Args:
            pool: the candidates.
            candidates: (n, length + 1) their sequences.
            hits: (n,) whether a stopping criterion ends each.
        """
        # A finished candidate cannot run on.
        # -1e9 rather than -inf, as in transformers: sums of placeholders stay comparable.
        open_sums = pool.scores + hits.to(torch.float32) * _IMPOSSIBLE
        running = open_sums.topk(self.beams).indices
        # As in transformers, only the first ``beams`` candidates may finish.
        first = torch.arange(self.pool_size, device=hits.device) < self.beams
        # Lengths count end-of-sequence and not the prompt (transformers #26624).
        new_length = self.length + 1
        scores = pool.scores / (new_length**self.length_penalty)
        full = self.finished.all() & (self.early_stopping is True)
        scores = scores + full.to(torch.float32) * _IMPOSSIBLE
        # After a failed stopping test nothing may join the heap.
        scores = scores + (~self.improvable).to(torch.float32) * _IMPOSSIBLE
        scores = scores + (~(hits & first)).to(torch.float32) * _IMPOSSIBLE
        merged_scores = torch.cat([self.heap_scores, scores])
        merged = merged_scores.topk(self.beams).indices
        self.heap_scores = merged_scores[merged]
        self.finished = torch.cat([self.finished, hits & first])[merged]
        self.sums, self.ids = open_sums[running], candidates[running]
        return StepOutcome(hits, running, merged, scores)

    def test(self, outcome: StepOutcome) -> None:
        """Test whether a running beam can still improve the heap; update ``goes_on``.

        "never" with a positive penalty assumes that the beams grow to the maximum length; all other
        settings assume that they end now.
        """
        longest = self.early_stopping == "never" and self.length_penalty > 0
        length = self.max_length - self.prompt_length if longest else self.length
        self.best = self.sums[0] / (length**self.length_penalty)
        worst = torch.where(self.finished, self.heap_scores.min(), _IMPOSSIBLE)
        # Sticky, as in transformers: a search that could not improve once never can again.
        self.improvable = self.improvable & (self.best > worst).any()
        self.worst = worst.max()
        full = self.finished.all() & (self.early_stopping is True)
        self.goes_on = bool(self.improvable & ~full & ~outcome.hits.all())
