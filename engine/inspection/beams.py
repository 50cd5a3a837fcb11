"""Why a beam search kept or dropped a hypothesis."""

from __future__ import annotations

import torch

from engine.inspection.beam_trial import BeamTrial
from engine.inspection.explanation import KEPT, Claim, Explainer
from engine.inspection.filter_chain import FilterChain, build_local_bias, find_smallest_bias
from engine.inspection.filter_report import (
    find_removals,
    report_rank,
    report_removals,
    run_sequence_bias,
    token_name,
)
from engine.inspection.rerun import ObservedPass, ReplayedStep
from engine.inspection.search_state import (
    RerunGroup,
    SearchState,
    build_search_state,
    total_scores,
)
from engine.loops.beams.step_record import IMPOSSIBLE_SUM, PROMPT_NODE
from engine.messages import Message, join_words
from engine.number_text import format_gap, format_number, format_total, mark_invisible
from engine.trace.details import BeamDetail, BeamNode

_SURVIVING_FATES = ("kept", "finished")
_QUOTED_TOKENS = 3
"""Number of preceding tokens that are quoted."""


def explain(
    place: ReplayedStep, detail: BeamDetail, token_id: int, draft: Explainer, node_id: int | None
) -> int:
    """Write why a hypothesis was kept or dropped; return its token.

    Args:
        place: the step.
        detail: its record.
        token_id: a continuation of a beam; the beam where it has the best sum is used.
        draft: receives the explanation.
        node_id: a node of the step's pool, instead of the token.
    """
    search = build_search_state(place, detail)
    team, row, node = _select_beam(search, token_id, node_id)
    token = token_id if node is None else node.token_id
    chain = FilterChain(_group_pass(search, team), row)
    report_rank(draft, chain, token)
    whole = _token_total(team, chain.scores, token, row)
    _add_sum_facts(search, draft, team, row, token, whole)
    found = find_removals(chain, place, token, search.length - 1)
    if found:
        report_removals(draft, found)
        return token
    if node is not None and node.fate in _SURVIVING_FATES:
        draft.chosen = True
        _explain_kept(search, draft, team, row, node)
        return token
    _explain_missed(search, draft, team, row, token, whole, node)
    return token


def _group_pass(search: SearchState, team: RerunGroup) -> ObservedPass:
    return search.place.views[search.teams.index(team)]


def _select_beam(
    search: SearchState, token_id: int, node_id: int | None
) -> tuple[RerunGroup, int, BeamNode | None]:
    """Return the group and row of the beam in question, and the pool's node if there is one."""
    pool = search.detail.pool
    if node_id is not None:
        node = next(n for n in pool if n.node_id == node_id)
        return (*_find_parent_beam(search, node), node)
    same = [n for n in pool if n.token_id == token_id]
    if same:
        node = max(same, key=lambda n: (n.fate in _SURVIVING_FATES, n.sum_logprobs))
        return (*_find_parent_beam(search, node), node)
    totals = [
        (_token_total(team, team.chain.scores, token_id, row), -team.number, row, team)
        for team in search.teams
        for row in range(team.size)
        if team.nodes[row] is not None
    ]
    # The key leaves out the group, which cannot be compared if all numbers are equal.
    _, _, row, team = max(totals, key=lambda one: one[:3])
    return team, row, None


def _find_parent_beam(search: SearchState, node: BeamNode) -> tuple[RerunGroup, int]:
    team = next(team for team in search.teams if team.number == node.group)
    return team, team.nodes.index(node.parent_id)


def _token_total(team: RerunGroup, scores: torch.Tensor, token_id: int, row: int) -> float:
    return float(total_scores(team, scores)[row, token_id])


def _add_sum_facts(
    search: SearchState, draft: Explainer, team: RerunGroup, row: int, token_id: int, whole: float
) -> None:
    before = float(team.sums[row])
    if whole <= IMPOSSIBLE_SUM:
        return
    draft.add_fact(
        "Sum of the text with it",
        format_total(whole),
        Message(
            "{before} for the text before it, and {own} for the token with your settings; "
            "natural logarithms.",
            before=format_total(before),
            own=format_total(whole - before),
        ),
    )
    parent = team.nodes[row]
    if parent is None or parent == PROMPT_NODE:
        return
    draft.add_fact("After", _quote_path(search, parent), "The end of the beam that it continues.")


def _name_in_beam(search: SearchState, team: RerunGroup, row: int, token_id: int) -> str:
    """Return a token, quoted, with the beam that it continues unless that is the prompt."""
    name, parent = token_name(search.place, token_id), team.nodes[row]
    if parent is None or parent == PROMPT_NODE:
        return name
    return Message("{name} after {before}", name=name, before=_quote_path(search, parent))


def _of_group(search: SearchState, group: int) -> str:
    return Message(" of group {group}", group=group + 1) if search.has_groups else ""


def _quote_path(search: SearchState, node: int) -> str:
    path = search.path(node)
    cut = "…" if len(path) > _QUOTED_TOKENS else ""
    text = "".join(search.place.piece(i) for i in path[-_QUOTED_TOKENS:])
    return f"“{cut}{mark_invisible(text).strip(' ')}”"


def _explain_kept(
    search: SearchState, draft: Explainer, team: RerunGroup, row: int, node: BeamNode
) -> None:
    name = _name_in_beam(search, team, row, node.token_id)
    mates = [n for n in search.detail.pool if n.group == node.group]
    if node.fate == "finished":
        draft.add_sentence(
            "{name} ended a text that counts: its score is {score}, {sum} over {penalised}.",
            name=name,
            score=format_number(node.score),
            sum=format_total(node.sum_logprobs),
            penalised=_length_phrase(search),
        )
        return
    kept = sorted((n for n in mates if n.fate == "kept"), key=lambda n: -n.sum_logprobs)
    own = format_total(node.sum_logprobs)
    draft.add_sentence(
        "{name} was kept: with {own} its text takes place {place} of {places}{of_group}.",
        name=name,
        own=own,
        place=kept.index(node) + 1,
        places=team.size,
        of_group=_of_group(search, node.group),
    )
    dropped = max((n.sum_logprobs for n in mates if n.fate == "pruned"), default=None)
    if dropped is not None and node.sum_logprobs > dropped:
        ahead = format_gap(dropped, node.sum_logprobs)[2]
        draft.add_sentence("It is {ahead} ahead of the first one that was dropped.", ahead=ahead)
        draft.add_fact("Ahead of the first dropped", ahead, "In the sum of log-probabilities.")
    if node.arrival is not None:
        draft.add_fact(
            "Arrival in the race", format_number(node.arrival), "The earliest are in the pool."
        )
    _explain_diversity_penalty(draft, node, search, 0.0)


def _length_phrase(search: SearchState) -> str:
    penalty = search.config.length_penalty
    if penalty == 1:
        return Message("{n} tokens", n=search.length)
    return Message(
        "{length} tokens to the power {penalty}", length=search.length, penalty=f"{penalty:g}"
    )


def _explain_diversity_penalty(
    draft: Explainer, node: BeamNode, search: SearchState, missed: float
) -> None:
    """Write the diversity penalty that earlier groups' choices cost a token."""
    if not node.penalised_by:
        return
    names = join_words([str(g + 1) for g in node.penalised_by])
    cost = format_number(node.diversity_penalty)
    if len(node.penalised_by) > 1:
        draft.add_sentence(
            "Groups {names} had taken it before at this step, which cost it {cost}.",
            names=names,
            cost=cost,
        )
    else:
        draft.add_sentence(
            "Group {names} had taken it before at this step, which cost it {cost}.",
            names=names,
            cost=cost,
        )
    if 0 < missed < node.diversity_penalty:
        draft.add_sentence("Without that it would have stayed.")
    draft.add_fact(
        "Diversity penalty",
        f"−{cost}",
        Message(
            "{penalty} for each beam of an earlier group that took it.",
            penalty=f"{search.config.diversity_penalty:g}",
        ),
    )


def _explain_missed(
    search: SearchState,
    draft: Explainer,
    team: RerunGroup,
    row: int,
    token_id: int,
    whole: float,
    node: BeamNode | None,
) -> None:
    name = _name_in_beam(search, team, row, token_id)
    mates = [n for n in search.detail.pool if n.group == team.number]
    kept = [n.sum_logprobs for n in mates if n.fate == "kept"]
    forced = getattr(search.config, "force_words_ids", None)
    if node is not None and node.fate in ("blocked", "finished_worse"):
        draft.add_sentence(
            "{name} ended a text that does not count: {reason}", name=name, reason=node.reason
        )
        draft.add_fact(
            "Its score",
            format_number(node.score),
            Message("The sum over {penalised}.", penalised=_length_phrase(search)),
        )
    # What lost the race is not in the pool, whatever its sum is.
    elif search.is_sampled and node is None:
        draft.add_sentence(
            "The draw left out {name}: {mates} other candidates arrived before it.",
            name=name,
            mates=len(mates),
        )
    elif not kept:
        _explain_last_step(draft, mates, team, name, whole)
    elif whole < min(kept):
        _explain_below_cut(search, draft, team, name, whole, min(kept))
        if node is not None:
            _explain_diversity_penalty(draft, node, search, min(kept) - whole)
    elif not forced:
        draft.add_sentence(
            "{name} was not kept, though its sum {sum} would have been enough.",
            name=name,
            sum=format_total(whole),
        )
    if not forced:
        _claim_bias(search, draft, team, row, token_id)
    elif kept and whole >= min(kept):
        _explain_taken_turn(draft, name, whole, node.reason if node is not None else "")


def _explain_taken_turn(draft: Explainer, name: str, whole: float, reason: str) -> None:
    """Write that places go in turn to texts by their forced words, and how many this one has.

    Args:
        draft: receives the explanation.
        name: the token, quoted.
        whole: sum of the log-probabilities of the text with it.
        reason: the recorded reason: a sentence, or only the number of forced words.
    """
    draft.add_sentence(
        "{name} was not kept, though its sum {sum} is not the lowest: places go in turn to texts "
        "with more of the forced words.",
        name=name,
        sum=format_total(whole),
    )
    if reason.endswith("."):
        draft.add_sentence(reason)
    elif reason:
        draft.add_sentence("It has {forced_words}.", forced_words=reason)


def _explain_last_step(
    draft: Explainer, mates: list[BeamNode], team: RerunGroup, name: str, whole: float
) -> None:
    """Write why a text of the last step does not count: every text ends there."""
    counted = sorted((n.sum_logprobs for n in mates), reverse=True)[: team.size]
    own, needed, _ = format_gap(whole, counted[-1])
    draft.add_sentence(
        "{name} would have ended a text as well, but only the {size} best of this "
        "last step count: it has {own}, and it would have needed {needed}.",
        name=name,
        size=team.size,
        own=own,
        needed=needed,
    )


def _explain_below_cut(
    search: SearchState, draft: Explainer, team: RerunGroup, name: str, whole: float, cut: float
) -> None:
    own, needed, missed = format_gap(whole, cut)
    values = {
        "name": name,
        "of_group": _of_group(search, team.number),
        "missed": missed,
        "own": own,
        "needed": needed,
    }
    if team.size == 1:
        draft.add_sentence(
            "{name} missed the only place{of_group} by {missed}: its text has {own} and would "
            "have needed {needed}.",
            **values,
        )
    else:
        draft.add_sentence(
            "{name} missed the last of the {size} places{of_group} by {missed}: its text has "
            "{own} and would have needed {needed}.",
            size=team.size,
            **values,
        )
    draft.add_fact("Missed by", missed, "In the sum of log-probabilities.")


def _claim_bias(
    search: SearchState, draft: Explainer, team: RerunGroup, row: int, token_id: int
) -> None:
    """Claim the bias that the token would have needed after this text."""
    trial = BeamTrial(search, team, row, token_id)
    bias = find_smallest_bias(trial.is_kept_with_bias, 0.05)
    if bias is None:
        return
    draft.add_fact(
        "Missing in the log-probability",
        format_number(bias, 4),
        "With this much more after this text only, the hypothesis would have stayed.",
    )
    text = FilterChain(_group_pass(search, team), row).text
    value = build_local_bias(text, token_id, bias, run_sequence_bias(search.place))
    draft.claim = Claim({"sequence_bias": value}, KEPT)
