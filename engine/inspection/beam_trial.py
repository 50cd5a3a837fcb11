"""One step of a beam search decided again with a bias on one token after one text."""

from __future__ import annotations

from typing import Any

import torch

from engine.inspection.filter_chain import FilterChain
from engine.inspection.search_state import (
    RerunGroup,
    SearchState,
    replace_earlier_tokens,
    total_scores,
)
from engine.loops.beams.diverse import HammingDiversityLogitsProcessor
from engine.loops.beams.step_record import IMPOSSIBLE_SUM
from engine.loops.exponential_race import draw_noise
from engine.trace.details import BeamDetail


class BeamTrial:
    """Tests how much bias a token would have needed to stay in the search.

    Args:
        search: the step.
        team: the group of the beam in question.
        row: the beam.
        token_id: the token after it.
    """

    def __init__(self, search: SearchState, team: RerunGroup, row: int, token_id: int) -> None:
        self.search, self.team, self.row, self.token_id = search, team, row, token_id
        self.text = team.chain.ids[row].tolist()
        step = search.place.step.index
        before = search.place.trace.steps[step - 1].detail if step else None
        heap = before.heap if isinstance(before, BeamDetail) else ()
        self.heap = [h.score for h in heap if not search.has_groups or h.group == team.number]
        fates = [n.fate for n in search.detail.pool if n.group == team.number]
        # At the length limit every text ends, so nothing in the pool is kept or pruned.
        self.all_end = not search.has_groups and not any(f in ("kept", "pruned") for f in fates)

    def is_kept_with_bias(self, bias: float) -> bool:
        """Return True if the hypothesis goes on or finishes with this bias."""
        if self.search.has_groups:
            return self._is_kept_with_groups(bias)
        totals = total_scores(self.team, self._biased_scores(self.team, bias))
        values, flat = self._candidate_pool(totals)
        place = self.row * totals.shape[-1] + self.token_id
        if place not in flat:
            return False
        at = flat.index(place)
        ended = [self._is_end_token(token % totals.shape[-1]) for token in flat]
        if ended[at]:
            return self._can_join_finished(at, values, ended)
        ranked = sorted((-v, i) for i, v in enumerate(values) if not ended[i])
        return at in [i for _, i in ranked[: self.team.size]] and values[at] > IMPOSSIBLE_SUM

    def _is_end_token(self, token: int) -> bool:
        return self.all_end or token in self.search.ends

    def _candidate_pool(self, totals: torch.Tensor) -> tuple[list[float], list[int]]:
        size = self.search.pool_size * self.team.size
        flat = totals.flatten()
        if not self.search.is_sampled:
            best = flat.topk(size)
            return best.values.tolist(), best.indices.tolist()
        # The race of the loop: the largest p / e are drawn, with the run's own noise.
        probs = flat.softmax(-1)
        generator = self.search.place.generator()
        noise = draw_noise(probs, generator)
        drawn = (probs / noise).topk(size).indices
        return flat[drawn].tolist(), drawn.tolist()

    def _can_join_finished(self, at: int, values: list[float], ended: list[bool]) -> bool:
        """Return True if an ended text of the pool joins the finished hypotheses."""
        # transformers lets only the first num_beams candidates of a pool finish.
        size, config = self.team.size, self.search.config
        full = len(self.heap) >= size
        if at >= size or (full and (size == 1 or config.early_stopping is True)):
            return False
        over = self.search.length**config.length_penalty
        others = [values[i] / over for i in range(size) if ended[i] and i != at]
        better = [score for score in (*self.heap, *others) if score >= values[at] / over]
        return len(better) < size

    def _biased_scores(self, team: RerunGroup, bias: float) -> torch.Tensor:
        """Return (beams, vocab) processed scores with the bias after this text only."""
        chain, scores = team.chain, team.chain.changeable_scores.clone()
        for row, ids in enumerate(chain.ids.tolist()):
            # ``build_local_bias`` holds 63 ids of text, so texts with this end are the same to it.
            if ids[-63:] == self.text[-63:]:
                scores[row, self.token_id] += bias
        return chain.run_processors(scores, chain.start)

    def _is_kept_with_groups(self, bias: float) -> bool:
        """Let the groups choose one after the other; earlier groups may hold the same text."""
        search = self.search
        earlier_tokens: dict[int, list[int]] = {}
        for team in search.teams:
            chain, scores = team.chain, team.chain.changeable_scores.clone()
            for row, ids in enumerate(chain.ids.tolist()):
                if ids[-63:] == self.text[-63:]:
                    scores[row, self.token_id] += bias
            known = self._find_earlier_tokens(chain, earlier_tokens, team)
            own = [replace_earlier_tokens(link.processor, known) for link in chain.links]
            totals = total_scores(team, chain.run_processors(scores, chain.start, own))
            best = totals.flatten().topk(search.pool_size * team.size)
            flat, vocab = best.indices.tolist(), totals.shape[-1]
            open_ = [place for place in flat if place % vocab not in search.ends][: team.size]
            if team is self.team:
                return self._is_token_kept(flat, open_, best.values.tolist(), vocab)
            earlier_tokens[team.number] = [place % vocab for place in open_]
        return False

    def _is_token_kept(
        self, flat: list[int], open_: list[int], values: list[float], vocab: int
    ) -> bool:
        place = self.row * vocab + self.token_id
        if self.token_id not in self.search.ends:
            return place in open_ and values[flat.index(place)] > IMPOSSIBLE_SUM
        if place not in flat[: self.team.size]:
            return False
        score = values[flat.index(place)] / self.search.length**self.search.config.length_penalty
        return len(self.heap) < self.team.size or score > min(self.heap)

    def _find_earlier_tokens(
        self, chain: FilterChain, earlier_tokens: dict[int, list[int]], team: RerunGroup
    ) -> Any:
        """Return the tokens earlier groups take now; finished groups keep the recorded ones."""
        recorded = next(
            (
                link.processor.earlier_tokens
                for link in chain.links
                if isinstance(link.processor, HammingDiversityLogitsProcessor)
            ),
            torch.empty(0, dtype=torch.long),
            # A copy, since the recorded processor is used again for the next question.
        ).clone()
        for number, tokens in earlier_tokens.items():
            start = number * team.size
            for i, token in enumerate(tokens):
                recorded[start + i] = token
        return recorded
