"""Explanations from the recording alone: a step's saved candidates."""

from __future__ import annotations

import math

from engine.inspection.explanation import Explainer
from engine.inspection.filter_report import token_name
from engine.inspection.rerun import ReplayedStep
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
        draft.say(f"The method wrote {name}; what decided it was not seen.")
        return
    if candidate is None:
        draft.say(
            f"{name} is not among the {len(found)} recorded candidates of this step, so nothing "
            "more is known of it."
        )
        return
    _add_candidate_facts(draft, candidate, step)
    chosen = None if own is None else found.get(own)
    after = " after the processors" if step.stages else ""
    # A custom method may choose a token that a processor removed.
    if candidate.removed_by and draft.chosen:
        draft.say(f"The method took {name}, which {candidate.removed_by} had removed.")
    elif candidate.removed_by:
        draft.say(f"{candidate.removed_by} removed {name}.")
    elif draft.chosen:
        first = not step.stages and not candidate.rank
        largest = ", the largest probability of all" if first else ""
        verb = "drawn" if find_draw(step.detail) else "taken"
        draft.say(f"{name} was {verb}, with {_format_probability(candidate)}{after}{largest}.")
    elif chosen is not None:
        draft.say(
            f"{name} was not taken: it had {_format_probability(candidate)}{after}, and "
            f"{token_name(place, chosen.token_id)}, which was, had {_format_probability(chosen)}."
        )
    _explain_strategy_detail(place, token_id, draft)


def _format_probability(candidate: Candidate) -> str:
    return format_percent(math.exp(candidate.processed_logprob))


def _add_candidate_facts(draft: Explainer, candidate: Candidate, step: Step) -> None:
    draft.fact("Rank in the model", f"{candidate.rank + 1:,}", "1 is the most probable.")
    draft.fact(
        "Probability in the model",
        format_percent(math.exp(candidate.raw_logprob)),
        "Over the whole vocabulary, before any processor.",
    )
    if not isinstance(step.detail, ForwardDetail):
        draft.fact("Probability as used", _format_probability(candidate), "After every processor.")
    elif step.stages:
        seen = "Those that were seen at work; the method may have done more."
        draft.fact("Probability after the processors", _format_probability(candidate), seen)


def _explain_strategy_detail(place: ReplayedStep, token_id: int, draft: Explainer) -> None:
    """Add what the strategy's own record says about the token."""
    detail = place.step.detail
    if isinstance(detail, WatermarkDetail) and detail.is_green is not None:
        colour = "green" if token_id in detail.green_candidates else "red"
        draft.say(f"It is {colour} here.")
    draw = find_draw(detail)
    if draw is not None and not draft.chosen:
        for racer in draw.racers:
            if racer.token_id == token_id:
                late, first = format_distinct(racer.arrival, draw.racers[0].arrival)
                draft.say(f"In the draw it arrived at {late}, the winner at {first}.")
    elif isinstance(detail, ContrastiveDetail):
        for option in detail.options:
            if option.token_id == token_id:
                cost = format_number(option.degeneration_penalty)
                draft.say(f"Its score is {format_number(option.score)}; likeness cost it {cost}.")
    elif isinstance(detail, DraftDetail) and detail.tokens:
        guesses = "".join(place.piece(token.token_id) for token in detail.tokens)
        draft.say(f"The draft of this round was “{format_token(guesses)}”.")


def explain_node(place: ReplayedStep, node: BeamNode, draft: Explainer) -> None:
    """Write what the recording says about a node of a search."""
    detail = place.step.detail
    assert isinstance(detail, BeamDetail)
    name = token_name(place, node.token_id)
    own = format_total(node.sum_logprobs)
    draft.chosen = node.fate in ("kept", "finished")
    draft.fact("Sum of the text with it", own, "Of log-probabilities; natural logarithms.")
    draft.fact("Score", format_number(node.score), "The sum over the length to the length penalty.")
    kept = [n.sum_logprobs for n in detail.pool if n.fate == "kept" and n.group == node.group]
    if node.fate == "pruned" and kept and node.sum_logprobs < min(kept):
        own, needed, missed = format_gap(node.sum_logprobs, min(kept))
        draft.say(
            f"{name} missed the last place by {missed}: its text has {own} and would have needed "
            f"{needed}."
        )
    elif node.fate == "pruned":
        draft.say(f"{name} was not kept; the log-probability of its text is {own}.")
    elif draft.chosen:
        ended = "ended a text that counts" if node.fate == "finished" else "was kept"
        draft.say(f"{name} {ended}; the log-probability of its text is {own}.")
    else:
        draft.say(
            f"{name} ended a text that does not count, with a log-probability of {own}. "
            f"{node.reason}"
        )
