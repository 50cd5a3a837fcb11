"""Why contrastive search chose a token: its probability against its similarity to the text."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.inspection.explanation import CHOSEN, CONSIDERED, Claim, Explainer
from engine.inspection.filter_chain import FilterChain, build_local_bias, find_smallest_bias
from engine.inspection.filter_report import (
    find_removals,
    report_rank,
    report_removals,
    row_values,
    run_sequence_bias,
    token_name,
)
from engine.inspection.rerun import ReplayedStep
from engine.messages import Message
from engine.number_text import format_number, format_percent, format_value, quote_token
from engine.trace.details import ContrastiveDetail, ContrastiveOption

_MIN_LEAD = 2e-5
"""Smallest lead in the score that the recording's rounding cannot cause."""
_MAX_CLAIMED_TOP_K = 64


def explain(
    place: ReplayedStep,
    chain: FilterChain,
    detail: ContrastiveDetail,
    token_id: int,
    draft: Explainer,
) -> None:
    """Write why a token was chosen or not.

    Args:
        place: the step.
        chain: the row's processors.
        detail: the step's record.
        token_id: the token in question.
        draft: receives the explanation.
    """
    here = report_rank(draft, chain, token_id)
    options = {option.token_id: option for option in detail.options}
    winner = detail.options[_winner_index(place, detail)]
    option = options.get(token_id)
    if option is None:
        start = 1 if place.trace.model.is_encoder_decoder else len(place.trace.prompt_ids)
        found = find_removals(chain, place, token_id, len(chain.text) - start)
        if found:
            report_removals(draft, found)
            return
        k = int(place.trace.config["top_k"])
        draft.add_sentence(
            "{name} was not considered: with your settings it is number {place}, and the model "
            "reads only the first {k}.",
            name=token_name(place, token_id),
            place=f"{here.place:,}",
            k=k,
        )
        if here.place <= _MAX_CLAIMED_TOP_K:
            draft.add_sentence("At top_k ≥ {place} it is one of the candidates.", place=here.place)
            draft.claim = Claim({"top_k": here.place}, CONSIDERED, at_step=True)
        return
    _add_score_facts(place, chain, option, draft)
    if option is winner:
        draft.chosen = True
        _explain_winner(place, chain, detail, option, draft)
    else:
        _explain_loser(place, chain, detail, option, winner, draft)


def _winner_index(place: ReplayedStep, detail: ContrastiveDetail) -> int:
    chosen = place.step.emit[-1]
    return next(i for i, option in enumerate(detail.options) if option.token_id == chosen)


def describe_position(place: ReplayedStep, chain: FilterChain, position: int) -> str:
    """Return the earlier token at a position, quoted, with its position."""
    # An encoder-decoder's ids begin with the decoder's start token.
    text = chain.text[1:] if place.trace.model.is_encoder_decoder else chain.text
    if position < 0:
        return "the start of the text"
    piece = quote_token(place.piece(text[position]))
    return Message("{piece} at position {position}", piece=piece, position=position + 1)


def _add_score_facts(
    place: ReplayedStep, chain: FilterChain, option: ContrastiveOption, draft: Explainer
) -> None:
    alpha = float(place.trace.config["penalty_alpha"])
    word = describe_position(place, chain, option.position)
    draft.add_fact("Score", format_number(option.score), "(1 − α) × probability − α × likeness.")
    draft.add_fact(
        "Largest likeness",
        format_number(option.max_cosine),
        Message("Cosine with the hidden state of {word}.", word=word),
    )
    draft.add_fact(
        "What likeness cost",
        format_number(option.degeneration_penalty),
        Message("α = {alpha} times the cosine.", alpha=format_value(alpha)),
    )
    draft.add_fact(
        "What probability gave",
        format_number(option.confidence),
        Message("(1 − α) times {percent}.", percent=format_percent(option.probability)),
    )


def _explain_winner(
    place: ReplayedStep,
    chain: FilterChain,
    detail: ContrastiveDetail,
    option: ContrastiveOption,
    draft: Explainer,
) -> None:
    name = token_name(place, option.token_id)
    others = [other for other in detail.options if other is not option]
    if not others:
        draft.add_sentence("{name} was the only candidate.", name=name)
        return
    second = max(others, key=lambda other: other.score)
    favourite = max(detail.options, key=lambda other: other.probability)
    draft.add_sentence(
        "{name} has the best score, {score}, ahead of {second} with {other}.",
        name=name,
        score=format_number(option.score),
        second=token_name(place, second.token_id),
        other=format_number(second.score),
    )
    if favourite is option:
        draft.add_sentence(
            "It is also the most probable candidate; greedy search would take it, too."
        )
        return
    word = describe_position(place, chain, favourite.position)
    draft.add_sentence(
        "The most probable candidate, {favourite}, resembles {word} and loses {loss} "
        "for it; this one loses {own}.",
        favourite=token_name(place, favourite.token_id),
        word=word,
        loss=format_number(favourite.degeneration_penalty),
        own=format_number(option.degeneration_penalty),
    )


def _explain_loser(
    place: ReplayedStep,
    chain: FilterChain,
    detail: ContrastiveDetail,
    option: ContrastiveOption,
    winner: ContrastiveOption,
    draft: Explainer,
) -> None:
    name, word = (
        token_name(place, option.token_id),
        describe_position(place, chain, option.position),
    )
    draft.add_sentence(
        "{name} scores {score} against {best} of {winner}: {percent} give it "
        "{confidence}, and its likeness to {word} costs {cost}.",
        name=name,
        score=format_number(option.score),
        best=format_number(winner.score),
        winner=token_name(place, winner.token_id),
        percent=format_percent(option.probability),
        confidence=format_number(option.confidence),
        word=word,
        cost=format_number(option.degeneration_penalty),
    )
    alpha = find_winning_alpha(detail.options, option, float(place.trace.config["penalty_alpha"]))
    if alpha is not None:
        draft.add_sentence(
            "With penalty_alpha = {alpha} it would have been taken.", alpha=format_value(alpha)
        )
        draft.add_fact(
            "Alpha that takes it", format_value(alpha), "With the candidates of this step."
        )
        draft.claim = Claim({"penalty_alpha": alpha}, CHOSEN, at_step=True)
        return
    bias = find_smallest_bias(lambda b: _is_best_with_bias(chain, detail, option, place, b), 0.1)
    if bias is None:
        draft.add_sentence("No alpha and no higher logit would have made it the choice.")
        return
    draft.add_sentence(
        "No alpha prefers it; with a logit {bias} higher it would have been taken.",
        bias=format_number(bias),
    )
    value = build_local_bias(chain.text, option.token_id, bias, run_sequence_bias(place))
    draft.claim = Claim({"sequence_bias": value}, CHOSEN)


def find_winning_alpha(
    options: Sequence[ContrastiveOption], option: ContrastiveOption, alpha: float
) -> float | None:
    """Return an alpha, near the given one, at which an option has the best score, or None.

    Scores are linear in alpha, so the values at which it leads form one interval.
    """
    low, high = 0.0, 1.0
    for other in options:
        if other is option:
            continue
        lead = option.probability - other.probability - _MIN_LEAD
        # The lead over another option is linear in alpha: lead - alpha * slope.
        slope = lead + option.max_cosine - other.max_cosine
        if slope > 0:
            high = min(high, lead / slope)
        elif slope < 0:
            low = max(low, lead / slope)
        elif lead < 0:
            return None
    if high < low:
        return None
    # Prefer the value with the fewest decimals.
    for digits in range(2, 6):
        value = round(min(max(alpha, low), high), digits)
        for near in (value, round(value + 10**-digits, digits), round(value - 10**-digits, digits)):
            if low <= near <= high:
                return near
    return None


def _is_best_with_bias(
    chain: FilterChain,
    detail: ContrastiveDetail,
    option: ContrastiveOption,
    place: ReplayedStep,
    bias: float,
) -> bool:
    """Return True if an option has the best score with a bias; similarities stay as recorded."""
    alpha = float(place.trace.config["penalty_alpha"])
    probs = torch.softmax(row_values(chain.scores_with_bias(option.token_id, bias), chain.row), -1)
    own = (1 - alpha) * float(probs[option.token_id]) - alpha * option.max_cosine
    return all(
        own > (1 - alpha) * float(probs[other.token_id]) - alpha * other.max_cosine + _MIN_LEAD
        for other in detail.options
        if other is not option
    )
