"""Explanations from the recording alone: a step's saved candidates."""

from __future__ import annotations

import math

from engine.inspection.explanation import Explainer
from engine.inspection.filter_report import token_name
from engine.inspection.rerun import ReplayedStep
from engine.messages import Message
from engine.number_text import (
    format_distinct,
    format_gap,
    format_number,
    format_percent,
    format_token,
    format_total,
)
from engine.trace.details import (
    BeamDetail,
    BeamNode,
    ContrastiveDetail,
    DraftDetail,
    ForwardDetail,
    WatermarkDetail,
    find_draw,
)
from engine.trace.filling import FillDetail
from engine.trace.records import Candidate, Step, chosen_token_id


def explain(place: ReplayedStep, token_id: int, draft: Explainer) -> None:
    """Write what the recording says about a token of a step."""
    step = place.step
    name = token_name(place, token_id)
    own = chosen_token_id(step)
    draft.chosen = token_id == own
    found = {candidate.token_id: candidate for candidate in step.candidates}
    candidate = found.get(token_id)
    if candidate is None and token_id in step.emit and isinstance(step.detail, ForwardDetail):
        draft.chosen = True
        draft.add_sentence("The method wrote {name}; what decided it was not seen.", name=name)
        return
    if isinstance(step.detail, FillDetail):
        _explain_pass(step.detail, draft)
        return
    if candidate is None:
        draft.add_sentence(
            "{name} is not among the {found} candidates saved with this step, so nothing more "
            "is known about it.",
            name=name,
            found=len(found),
        )
        return
    _add_candidate_facts(draft, candidate, step)
    chosen = None if own is None else found.get(own)
    # A custom method may choose a token that a processor removed.
    if candidate.removed_by and draft.chosen:
        draft.add_sentence(
            "The method took {name}, which {removed_by} had removed.",
            name=name,
            removed_by=candidate.removed_by,
        )
    elif candidate.removed_by:
        draft.add_sentence(
            "{removed_by} removed {name}.", removed_by=candidate.removed_by, name=name
        )
    elif draft.chosen:
        draft.add_sentence(_chosen_sentence(step, name, candidate))
    elif chosen is not None:
        template = (
            (
                "{name} was not taken: it had {p} after the filters, and {chosen}, which was, had "
                "{other}."
            )
            if step.stages
            else "{name} was not taken: it had {p}, and {chosen}, which was, had {other}."
        )
        draft.add_sentence(
            template,
            name=name,
            p=_format_probability(candidate),
            chosen=token_name(place, chosen.token_id),
            other=_format_probability(chosen),
        )
    _explain_strategy_detail(place, token_id, draft)


def _explain_pass(detail: FillDetail, draft: Explainer) -> None:
    """Write which guesses of a pass of masked diffusion were written."""
    draft.chosen = True
    left = len(detail.guesses) - len(detail.written)
    draft.add_sentence(
        "The pass guessed {n} hidden places at once and wrote {written} of them.",
        n=len(detail.guesses),
        written=len(detail.written),
    )
    if left:
        draft.add_sentence("The other {n} stay hidden and are guessed again.", n=left)


def _chosen_sentence(step: Step, name: str, candidate: Candidate) -> Message:
    p, drawn = _format_probability(candidate), find_draw(step.detail) is not None
    if step.stages:
        template = (
            "{name} was drawn, with {p} after the filters."
            if drawn
            else "{name} was taken, with {p} after the filters."
        )
    elif not candidate.rank:
        template = (
            "{name} was drawn, with {p}, the largest probability of all."
            if drawn
            else "{name} was taken, with {p}, the largest probability of all."
        )
    else:
        template = "{name} was drawn, with {p}." if drawn else "{name} was taken, with {p}."
    return Message(template, name=name, p=p)


def _format_probability(candidate: Candidate) -> str:
    return format_percent(math.exp(candidate.processed_logprob))


def _add_candidate_facts(draft: Explainer, candidate: Candidate, step: Step) -> None:
    draft.add_fact("Rank in the model", f"{candidate.rank + 1:,}", "1 is the most probable.")
    draft.add_fact(
        "The model's own probability",
        format_percent(math.exp(candidate.raw_logprob)),
        "Over the whole vocabulary, before any filter.",
    )
    if not isinstance(step.detail, ForwardDetail):
        draft.add_fact(
            "Probability with your settings", _format_probability(candidate), "After every filter."
        )
    elif step.stages:
        note = "Those that were seen at work; the method may have done more."
        draft.add_fact("Probability after the filters", _format_probability(candidate), note)


def _explain_strategy_detail(place: ReplayedStep, token_id: int, draft: Explainer) -> None:
    """Add what the strategy's own record says about the token."""
    detail = place.step.detail
    if isinstance(detail, WatermarkDetail) and detail.is_green is not None:
        green = token_id in detail.green_candidates
        draft.add_sentence("It is green here." if green else "It is red here.")
    draw = find_draw(detail)
    if draw is not None and not draft.chosen:
        for racer in draw.racers:
            if racer.token_id == token_id:
                late, first = format_distinct(racer.arrival, draw.racers[0].arrival)
                draft.add_sentence(
                    "In the draw it arrived at {late}, the winner at {first}.",
                    late=late,
                    first=first,
                )
    elif isinstance(detail, ContrastiveDetail):
        for option in detail.options:
            if option.token_id == token_id:
                cost = format_number(option.degeneration_penalty)
                draft.add_sentence(
                    "Its score is {score}; likeness cost it {cost}.",
                    score=format_number(option.score),
                    cost=cost,
                )
    elif isinstance(detail, DraftDetail) and detail.tokens:
        guesses = "".join(place.piece(token.token_id) for token in detail.tokens)
        draft.add_sentence(
            "The draft of this round was “{guesses}”.", guesses=format_token(guesses)
        )


def explain_node(place: ReplayedStep, node: BeamNode, draft: Explainer) -> None:
    """Write what the recording says about a node of a search."""
    detail = place.step.detail
    assert isinstance(detail, BeamDetail)
    name = token_name(place, node.token_id)
    own = format_total(node.sum_logprobs)
    draft.chosen = node.fate in ("kept", "finished")
    draft.add_fact("Sum of the text with it", own, "Of log-probabilities; natural logarithms.")
    draft.add_fact(
        "Score", format_number(node.score), "The sum over the length to the length penalty."
    )
    kept = [n.sum_logprobs for n in detail.pool if n.fate == "kept" and n.group == node.group]
    if node.fate == "pruned" and kept and node.sum_logprobs < min(kept):
        own, needed, missed = format_gap(node.sum_logprobs, min(kept))
        draft.add_sentence(
            "{name} missed the last place by {missed}: its text has {own} and would have "
            "needed {needed}.",
            name=name,
            missed=missed,
            own=own,
            needed=needed,
        )
    elif node.fate == "pruned":
        draft.add_sentence(
            "{name} was not kept; the log-probability of its text is {own}.", name=name, own=own
        )
    elif draft.chosen:
        template = (
            "{name} ended a text that counts; the log-probability of its text is {own}."
            if node.fate == "finished"
            else "{name} was kept; the log-probability of its text is {own}."
        )
        draft.add_sentence(template, name=name, own=own)
    else:
        draft.add_sentence(
            "{name} ended a text that does not count, with a log-probability of {own}.",
            name=name,
            own=own,
        )
        draft.add_sentence(node.reason)
