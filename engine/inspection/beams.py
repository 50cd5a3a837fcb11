"""Why a beam search kept or dropped a hypothesis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

from engine.inspection.explanation import (
    KEPT,
    Claim,
    Wording,
    joined,
    level,
    number,
    total,
    visible,
)
from engine.inspection.filter_chain import Chain, local_bias, smallest
from engine.inspection.filter_report import (
    known_biases,
    removals,
    tell_removals,
    tell_standing,
    token_name,
)
from engine.inspection.rerun import Moment, View
from engine.loops.beams.diverse import HammingDiversityLogitsProcessor
from engine.loops.beams.step_record import IMPOSSIBLE, PROMPT
from engine.trace.details import BeamDetail, BeamNode

_NEVER = -1e9
_GOES_ON = ("kept", "finished")
_SHOWN = 3
"""Number of preceding tokens that are quoted."""


@dataclass(frozen=True)
class Team:
    """Beams that compete with each other: all beams of a search, or one group.

    Attributes:
        number: index of the group, from 0.
        chain: the processors of their pass.
        sums: (beams,) sum of log-probabilities so far, nats; -1e9 for a placeholder.
        nodes: node of each beam's text; -1 is the prompt, None a placeholder.
    """

    number: int
    chain: Chain
    sums: torch.Tensor
    nodes: tuple[int | None, ...]

    @property
    def size(self) -> int:
        """Number of beams that go on."""
        return len(self.nodes)


@dataclass(frozen=True)
class Searched:
    """The state of a search just before a step's decision.

    Attributes:
        place: the step.
        detail: its record.
        teams: groups, in the order in which they choose.
        nodes: every node up to this step, by id.
        length: new tokens, including the one chosen here.
    """

    place: Moment
    detail: BeamDetail
    teams: tuple[Team, ...]
    nodes: dict[int, BeamNode]
    length: int

    @property
    def config(self) -> Any:
        """The run's config."""
        assert self.place.run is not None
        return self.place.run.config

    @property
    def drawn(self) -> bool:
        """Whether the pool is sampled."""
        return self.place.trace.strategy == "beam_sampling"

    @property
    def groups(self) -> bool:
        """Whether the search is diverse beam search, with groups and the older scorer."""
        return self.place.trace.strategy == "diverse_beam_search"

    @property
    def ends(self) -> set[int]:
        """Tokens that end a text."""
        return set(self.place.trace.eos_token_ids)

    @property
    def pool_size(self) -> int:
        """Candidates per beam in the pool."""
        return max(2, 1 + len(self.ends))

    def path(self, node: int) -> list[int]:
        """Return the new tokens up to a node."""
        tokens = []
        while node != PROMPT:
            tokens.append(self.nodes[node].token_id)
            node = self.nodes[node].parent_id
        return tokens[::-1]


def nodes_of(place: Moment) -> dict[int, BeamNode]:
    """Return every node of a run up to a step, by id."""
    return {
        node.node_id: node
        for step in place.trace.steps[: place.step.index + 1]
        if isinstance(step.detail, BeamDetail)
        for node in step.detail.pool
    }


def search_of(place: Moment, detail: BeamDetail) -> Searched:
    """Rebuild the search's groups, sums and nodes before a step."""
    nodes = nodes_of(place)
    start = 1 if place.trace.model.is_encoder_decoder else len(place.trace.prompt_ids)
    length = place.views[0].input_ids.shape[1] - start + 1
    search = Searched(place, detail, (), nodes, length)
    before = place.trace.steps[place.step.index - 1].detail if place.step.index else None
    kept = before.pool if isinstance(before, BeamDetail) else ()
    groups = sorted({node.group for node in detail.pool}) or [0]
    views = place.views[: len(groups)] if search.groups else place.views[:1]
    teams = []
    # Diverse beam search makes one observation per group; the other searches make one in all.
    for number_, view in zip(groups, views, strict=False):
        open_ = {
            tuple(search.path(n.node_id)): n
            for n in kept
            if n.fate == "kept" and n.group == number_
        }
        teams.append(_team(search, number_, view, open_, start))
    return replace(search, teams=tuple(teams))


def _team(
    search: Searched, number_: int, view: View, open_: dict[tuple[int, ...], BeamNode], start: int
) -> Team:
    sums: list[float] = []
    numbers: list[int | None] = []
    for row, ids in enumerate(view.input_ids.tolist()):
        node = open_.pop(tuple(ids[start:]), None)
        # The first step has one beam; the other rows are placeholders that lose to it.
        if search.length == 1:
            sums.append(_NEVER if row else 0.0)
            numbers.append(None if row else PROMPT)
        else:
            sums.append(_NEVER if node is None else node.sum_logprobs)
            numbers.append(None if node is None else node.node_id)
    device = view.logits.device
    return Team(number_, Chain(view, 0), torch.tensor(sums, device=device), tuple(numbers))


def explain(
    place: Moment, detail: BeamDetail, token_id: int, draft: Wording, node_id: int | None
) -> int:
    """Write why a hypothesis was kept or dropped; return its token.

    Args:
        place: the step.
        detail: its record.
        token_id: a continuation of a beam; the beam where it has the best sum is used.
        draft: receives the explanation.
        node_id: a node of the step's pool, instead of the token.
    """
    search = search_of(place, detail)
    team, row, node = _asked(search, token_id, node_id)
    token = token_id if node is None else node.token_id
    chain = Chain(_view(search, team), row)
    tell_standing(draft, chain, token)
    whole = _total(team, chain.scores, token, row)
    _sums(search, draft, team, row, token, whole)
    found = removals(chain, place, token, search.length - 1)
    if found:
        tell_removals(draft, found)
        return token
    if node is not None and node.fate in _GOES_ON:
        draft.chosen = True
        _kept(search, draft, team, row, node)
        return token
    _missed(search, draft, team, row, token, whole, node)
    return token


def _view(search: Searched, team: Team) -> View:
    return search.place.views[search.teams.index(team)]


def _asked(
    search: Searched, token_id: int, node_id: int | None
) -> tuple[Team, int, BeamNode | None]:
    """Return the group and row of the beam in question, and the pool's node if there is one."""
    pool = search.detail.pool
    if node_id is not None:
        node = next(n for n in pool if n.node_id == node_id)
        return (*_home(search, node), node)
    same = [n for n in pool if n.token_id == token_id]
    if same:
        node = max(same, key=lambda n: (n.fate in _GOES_ON, n.sum_logprobs))
        return (*_home(search, node), node)
    totals = [
        (_total(team, team.chain.scores, token_id, row), -team.number, row, team)
        for team in search.teams
        for row in range(team.size)
        if team.nodes[row] is not None
    ]
    _, _, row, team = max(totals, key=lambda one: one[:3])
    return team, row, None


def _home(search: Searched, node: BeamNode) -> tuple[Team, int]:
    team = next(team for team in search.teams if team.number == node.group)
    return team, team.nodes.index(node.parent_id)


def _total(team: Team, scores: torch.Tensor, token_id: int, row: int) -> float:
    return float(totals_of(team, scores)[row, token_id])


def totals_of(team: Team, scores: torch.Tensor) -> torch.Tensor:
    """Return (beams, vocab) sums of log-probabilities of all possible continuations."""
    if team.size == 1:
        # With one beam the processors see logits, not log-probabilities.
        scores = scores - team.chain.logits.logsumexp(-1, keepdim=True)
    return scores + team.sums[:, None]


def _sums(
    search: Searched, draft: Wording, team: Team, row: int, token_id: int, whole: float
) -> None:
    before = float(team.sums[row])
    if whole <= IMPOSSIBLE:
        return
    draft.fact(
        "Sum of the text with it",
        total(whole),
        f"{total(before)} of the text before it, and {total(whole - before)} for the token "
        "after the processors; natural logarithms.",
    )
    parent = team.nodes[row]
    if parent is None or parent == PROMPT:
        return
    draft.fact("After", _text(search, parent), "The end of the beam that it continues.")


def _after(search: Searched, team: Team, row: int) -> str:
    """Return the continued beam as part of a sentence, "" after the prompt."""
    parent = team.nodes[row]
    return "" if parent is None or parent == PROMPT else f" after {_text(search, parent)}"


def _text(search: Searched, node: int) -> str:
    path = search.path(node)
    cut = "…" if len(path) > _SHOWN else ""
    text = "".join(search.place.piece(i) for i in path[-_SHOWN:])
    return f"“{cut}{visible(text).strip(' ')}”"


def _kept(search: Searched, draft: Wording, team: Team, row: int, node: BeamNode) -> None:
    name = token_name(search.place, node.token_id) + _after(search, team, row)
    mates = [n for n in search.detail.pool if n.group == node.group]
    if node.fate == "finished":
        draft.say(
            f"{name} ended a text that counts: its score is {number(node.score)}, "
            f"{total(node.sum_logprobs)} over {_penalised(search)}."
        )
        return
    kept = sorted((n for n in mates if n.fate == "kept"), key=lambda n: -n.sum_logprobs)
    own = total(node.sum_logprobs)
    of_group = f" of group {node.group + 1}" if search.groups else ""
    draft.say(
        f"{name} was kept: with {own} its text takes place {kept.index(node) + 1} of "
        f"{team.size}{of_group}."
    )
    dropped = max((n.sum_logprobs for n in mates if n.fate == "pruned"), default=None)
    if dropped is not None and node.sum_logprobs > dropped:
        ahead = level(dropped, node.sum_logprobs)[2]
        draft.say(f"It is {ahead} ahead of the first one that was dropped.")
        draft.fact("Ahead of the first dropped", ahead, "In the sum of log-probabilities.")
    if node.arrival is not None:
        draft.fact("Arrival in the race", number(node.arrival), "The earliest are in the pool.")
    _charged(draft, node, search, 0.0)


def _penalised(search: Searched) -> str:
    penalty = search.config.length_penalty
    return f"{search.length} tokens" + ("" if penalty == 1 else f" to the power {penalty:g}")


def _charged(draft: Wording, node: BeamNode, search: Searched, missed: float) -> None:
    """Write the diversity penalty that earlier groups' choices cost a token."""
    if not node.penalised_by:
        return
    names = joined([str(g + 1) for g in node.penalised_by])
    several = "Groups" if len(node.penalised_by) > 1 else "Group"
    cost = number(node.diversity_penalty)
    more = " Without that it would have stayed." if 0 < missed < node.diversity_penalty else ""
    draft.say(f"{several} {names} had taken it before at this step, which cost it {cost}.{more}")
    draft.fact(
        "Diversity penalty",
        f"−{cost}",
        f"{search.config.diversity_penalty:g} for each beam of an earlier group that took it.",
    )


def _missed(
    search: Searched,
    draft: Wording,
    team: Team,
    row: int,
    token_id: int,
    whole: float,
    node: BeamNode | None,
) -> None:
    name = token_name(search.place, token_id) + _after(search, team, row)
    mates = [n for n in search.detail.pool if n.group == team.number]
    kept = [n.sum_logprobs for n in mates if n.fate == "kept"]
    forced = getattr(search.config, "force_words_ids", None)
    if node is not None and node.fate in ("blocked", "finished_worse"):
        draft.say(f"{name} ended a text that does not count: {_lower(node.reason)}")
        draft.fact("Its score", number(node.score), f"The sum over {_penalised(search)}.")
    elif search.drawn and node is None:
        draft.say(f"The draw left out {name}: {len(mates)} other candidates arrived before it.")
    elif not kept:
        _last_step(draft, mates, team, name, whole)
    elif whole < min(kept):
        _below(search, draft, team, name, whole, min(kept))
        if node is not None:
            _charged(draft, node, search, min(kept) - whole)
    elif not forced:
        draft.say(f"{name} was not kept, though its sum {total(whole)} would have been enough.")
    if not forced:
        _claim(search, draft, team, row, token_id)
    elif kept and whole >= min(kept):
        holds = f", and it holds {node.reason}" if node is not None and node.reason else ""
        draft.say(
            f"{name} was not kept, though its sum {total(whole)} is not the lowest: places go in "
            f"turn to texts with more of the forced words{holds}."
        )


def _lower(reason: str) -> str:
    return reason[:1].lower() + reason[1:]


def _last_step(draft: Wording, mates: list[BeamNode], team: Team, name: str, whole: float) -> None:
    """Write why a text of the last step does not count: every text ends there."""
    counted = sorted((n.sum_logprobs for n in mates), reverse=True)[: team.size]
    own, needed, _ = level(whole, counted[-1])
    draft.say(
        f"{name} would have ended a text as well, but only the {team.size} best of this last step "
        f"count: it has {own}, and it would have needed {needed}."
    )


def _below(
    search: Searched, draft: Wording, team: Team, name: str, whole: float, cut: float
) -> None:
    own, needed, missed = level(whole, cut)
    of_group = f" of group {team.number + 1}" if search.groups else ""
    places = "the only place" if team.size == 1 else f"the last of the {team.size} places"
    draft.say(
        f"{name} missed {places}{of_group} by {missed}: its text has {own} and would have needed "
        f"{needed}."
    )
    draft.fact("Missed by", missed, "In the sum of log-probabilities.")


def _claim(search: Searched, draft: Wording, team: Team, row: int, token_id: int) -> None:
    """Claim the bias that the token would have needed after this text."""
    # beam_trial imports this module.
    from engine.inspection.beam_trial import Trial

    trial = Trial(search, team, row, token_id)
    bias = smallest(trial.stands, 0.05)
    if bias is None:
        return
    draft.fact(
        "Missing in the log-probability",
        number(bias, 4),
        "With this much more after this text only, the hypothesis would have stayed.",
    )
    text = Chain(_view(search, team), row).text
    value = local_bias(text, token_id, bias, known_biases(search.place))
    draft.claim = Claim({"sequence_bias": value}, KEPT)


def with_taken(processor: Any, taken: torch.Tensor) -> Any:
    """Replace the tokens taken by earlier groups in a Hamming diversity processor."""
    if not isinstance(processor, HammingDiversityLogitsProcessor):
        return processor
    return HammingDiversityLogitsProcessor(processor.penalty, taken)
