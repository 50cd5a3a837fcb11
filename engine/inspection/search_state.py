"""The state of a recorded beam search just before one of its steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from engine.inspection.filter_chain import FilterChain
from engine.inspection.rerun import ObservedPass, ReplayedStep
from engine.loops.beams.diverse import HammingDiversityLogitsProcessor
from engine.loops.beams.step_record import PROMPT_NODE
from engine.models.model_types import Processor
from engine.trace.details import BeamDetail, BeamNode

# The number that transformers gives such beams: every real sum is above it.
_PLACEHOLDER_SUM = -1e9


@dataclass(frozen=True)
class RerunGroup:
    """Beams that compete with each other: all beams of a search, or one group.

    Attributes:
        number: index of the group, from 0.
        chain: the processors of their pass.
        sums: (beams,) sum of log-probabilities so far, nats; -1e9 for a placeholder.
        nodes: node of each beam's text; -1 is the prompt, None a placeholder.
    """

    number: int
    chain: FilterChain
    sums: torch.Tensor
    nodes: tuple[int | None, ...]

    @property
    def size(self) -> int:
        """Number of beams that go on."""
        return len(self.nodes)


@dataclass(frozen=True)
class SearchState:
    """The state of a search just before a step's decision.

    Attributes:
        place: the step.
        detail: its record.
        teams: groups, in the order in which they choose.
        nodes: every node up to this step, by id.
        length: new tokens, including the one chosen here.
    """

    place: ReplayedStep
    detail: BeamDetail
    teams: tuple[RerunGroup, ...]
    nodes: dict[int, BeamNode]
    length: int

    @property
    def config(self) -> Any:
        """The run's config."""
        assert self.place.run is not None
        return self.place.run.config

    @property
    def is_sampled(self) -> bool:
        """Whether the pool is sampled."""
        return self.place.trace.strategy == "beam_sampling"

    @property
    def has_groups(self) -> bool:
        """Whether the search is diverse beam search, with groups and the older scorer."""
        return self.place.trace.strategy == "diverse_beam_search"

    @property
    def ends(self) -> set[int]:
        """Tokens that end a text."""
        return set(self.place.trace.eos_token_ids)

    @property
    def pool_size(self) -> int:
        """Candidates per beam in the pool."""
        # As in transformers: enough candidates to go on even if every end token is among them.
        return max(2, 1 + len(self.ends))

    def path(self, node: int) -> list[int]:
        """Return the new tokens up to a node."""
        tokens = []
        while node != PROMPT_NODE:
            tokens.append(self.nodes[node].token_id)
            node = self.nodes[node].parent_id
        return tokens[::-1]


def collect_nodes(place: ReplayedStep) -> dict[int, BeamNode]:
    """Return every node of a run up to a step, by id."""
    return {
        node.node_id: node
        for step in place.trace.steps[: place.step.index + 1]
        if isinstance(step.detail, BeamDetail)
        for node in step.detail.pool
    }


def build_search_state(place: ReplayedStep, detail: BeamDetail) -> SearchState:
    """Rebuild the search's groups, sums and nodes before a step."""
    nodes = collect_nodes(place)
    start = 1 if place.trace.model.is_encoder_decoder else len(place.trace.prompt_ids)
    length = place.views[0].input_ids.shape[1] - start + 1
    search = SearchState(place, detail, (), nodes, length)
    before = place.trace.steps[place.step.index - 1].detail if place.step.index else None
    kept = before.pool if isinstance(before, BeamDetail) else ()
    groups = sorted({node.group for node in detail.pool}) or [0]
    views = place.views[: len(groups)] if search.has_groups else place.views[:1]
    teams = []
    # Diverse beam search makes one observation per group; the other searches make one in all.
    for number_, view in zip(groups, views, strict=False):
        open_ = {
            tuple(search.path(n.node_id)): n
            for n in kept
            if n.fate == "kept" and n.group == number_
        }
        teams.append(_build_group(search, number_, view, open_, start))
    return replace(search, teams=tuple(teams))


def _build_group(
    search: SearchState,
    number_: int,
    view: ObservedPass,
    open_: dict[tuple[int, ...], BeamNode],
    start: int,
) -> RerunGroup:
    sums: list[float] = []
    numbers: list[int | None] = []
    for row, ids in enumerate(view.input_ids.tolist()):
        # Taken out, since a second row with the same text can only be a placeholder.
        node = open_.pop(tuple(ids[start:]), None)
        # The first step has one beam; the other rows are placeholders that lose to it.
        if search.length == 1:
            sums.append(_PLACEHOLDER_SUM if row else 0.0)
            numbers.append(None if row else PROMPT_NODE)
        else:
            sums.append(_PLACEHOLDER_SUM if node is None else node.sum_logprobs)
            numbers.append(None if node is None else node.node_id)
    device = view.logits.device
    return RerunGroup(
        number_, FilterChain(view, 0), torch.tensor(sums, device=device), tuple(numbers)
    )


def total_scores(team: RerunGroup, scores: torch.Tensor) -> torch.Tensor:
    """Return (beams, vocab) sums of log-probabilities of all possible continuations."""
    if team.size == 1:
        # With one beam the processors see logits, not log-probabilities.
        scores = scores - team.chain.logits.logsumexp(-1, keepdim=True)
    return scores + team.sums[:, None]


def replace_earlier_tokens(processor: Processor, earlier_tokens: torch.Tensor) -> Any:
    """Replace the tokens taken by earlier groups in a Hamming diversity processor."""
    if not isinstance(processor, HammingDiversityLogitsProcessor):
        return processor
    return HammingDiversityLogitsProcessor(processor.penalty, earlier_tokens)
