"""A token's rank, its probabilities, and the effect of each processor on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from engine.inspection.explanation import SURVIVES, Claim, Explainer
from engine.inspection.filter_chain import FilterChain, FilterLink, copy_processor
from engine.inspection.layer_contrast import explain_layer_contrast
from engine.inspection.rerun import ReplayedStep
from engine.loops.dola import LayerContrast
from engine.loops.recorder import display_name
from engine.messages import Message, join_messages, join_words
from engine.number_text import format_number, format_percent, quote_token
from engine.processors import FILTERS
from engine.processors.removal import NO_REPLACEMENT, Removal, RemovalCase
from engine.processors.scores import IMPOSSIBLE_SCORE, is_removed

MIN_EFFECT = 0.005
"""Smaller changes of a logit are not reported."""


@dataclass(frozen=True)
class TokenRank:
    """A token's rank and probability before and after the processors of one row.

    Attributes:
        raw: probability in the model, over the whole vocabulary.
        rank: rank in the model; 1 is the most probable.
        used: probability after the processors, 0 if removed.
        place: rank after the processors; 1 is the most probable.
        left: number of tokens that survive the processors.
    """

    raw: float
    rank: int
    used: float
    place: int
    left: int


def rank_token(chain: FilterChain, token_id: int) -> TokenRank:
    """Return a token's rank and probability before and after the processors."""
    raw, final = chain.logits[chain.row], chain.scores[chain.row]
    possible = final > IMPOSSIBLE_SCORE
    final = final.masked_fill(~possible, -torch.inf)
    return TokenRank(
        float(torch.softmax(raw.double(), -1)[token_id]),
        int((raw > raw[token_id]).sum()) + 1,
        float(torch.softmax(final.double(), -1)[token_id]),
        int((final > final[token_id]).sum()) + 1,
        int(possible.sum()),
    )


def explain_removal(case: RemovalCase) -> Removal:
    """Return why a processor removed a token."""
    if isinstance(case.processor, LayerContrast):
        return explain_layer_contrast(case)
    known = FILTERS.get(display_name(case.processor))
    if known is not None and known.explain is not None:
        return known.explain(case)
    name = type(case.processor).__name__
    piece = quote_token(case.piece(case.token_id))
    return Removal(Message("{name} makes {piece} impossible here.", name=name, piece=piece))


def find_removals(
    chain: FilterChain, place: ReplayedStep, token_id: int, new: int
) -> list[Removal]:
    """Return every removal between a token and its survival.

    Each processor is checked as if the earlier ones had let the token through. If that cannot be
    tried, the last removal names no condition of survival: later ones are unknown.

    Args:
        chain: the row's processors.
        place: the step.
        token_id: a token that was removed.
        new: number of new tokens before this one.
    """
    first = chain.removal_index(token_id)
    if first is None:
        return []
    found, scores = [], chain.links[first].before
    for number, link in enumerate(chain.links[first:], first + 1):
        # A processor may keep state, and may write to the scores that it gets.
        after = copy_processor(link.processor)(chain.ids, scores.clone())
        if is_removed(after, chain.row, token_id):
            assert place.run is not None
            case = RemovalCase(
                link.processor,
                chain.ids,
                scores,
                chain.row,
                token_id,
                new,
                place.run.config,
                place.piece,
                place.trace.prompt_ids,
            )
            found.append(explain_removal(case))
            # What the changed processor would give is unknown here, and so are removals after it.
            if found[-1].instead is NO_REPLACEMENT and number < len(chain.links):
                found[-1] = dataclasses.replace(found[-1], survives="", changes={})
            if not found[-1].survives or found[-1].instead is NO_REPLACEMENT:
                break
            # Go on as if the changed processor had run, so later removals are found as well.
            other = found[-1].instead
            after = scores if other is None else other(chain.ids, scores.clone())
        scores = after
    return found


def report_removals(draft: Explainer, found: Sequence[Removal]) -> None:
    """Write why a token was removed and what would have let it through."""
    draft.add_sentence(found[0].why)
    for other in found:
        for fact in other.facts:
            draft.add_fact(*fact)
    if all(other.survives for other in found):
        draft.add_sentence(
            "It survives {conditions}.",
            conditions=join_words([other.survives for other in found]),
        )
        changes = {name: value for other in found for name, value in other.changes.items()}
        draft.claim = Claim(changes, SURVIVES, at_step=True)


def report_rank(draft: Explainer, chain: FilterChain, token_id: int) -> TokenRank:
    """Add the numbers common to all explanations of a distribution."""
    here = rank_token(chain, token_id)
    vocabulary = chain.logits.shape[-1]
    draft.add_fact(
        "Rank in the model",
        Message("{hits} of {trials}", hits=f"{here.rank:,}", trials=f"{vocabulary:,}"),
        "Its rank before any filter; 1 is the most probable.",
    )
    draft.add_fact(
        "The model's own probability",
        format_percent(here.raw),
        "Over the whole vocabulary, before any filter.",
    )
    if chain.links:
        draft.add_fact(
            "Probability with your settings",
            format_percent(here.used),
            "After every filter. It decided the step." if here.used else "A filter removed it.",
        )
        _report_effects(draft, chain, token_id)
    return here


def _report_effects(draft: Explainer, chain: FilterChain, token_id: int) -> None:
    """Add what each processor without removals did to the token's logit."""
    for link in chain.links:
        if is_removed(link.after, chain.row, token_id):
            return
        before = float(link.before[chain.row, token_id])
        after = float(link.after[chain.row, token_id])
        if (
            _keeps_order(link.name)
            or abs(after - before) < MIN_EFFECT
            or link.name in _SELF_EXPLAINED
        ):
            continue
        sign = "+" if after > before else "−"
        change = Message(
            "What it did to the token's logit: {before} became {after}.",
            before=format_number(before),
            after=format_number(after),
        )
        why = _describe_effect(link, chain.text, token_id)
        draft.add_fact(
            link.name,
            f"{sign}{format_number(abs(after - before))}",
            join_messages([why, change]),
        )


def _describe_effect(link: FilterLink, text: Sequence[int], token_id: int) -> str:
    describe = FILTERS[link.name].describe_effect if link.name in FILTERS else None
    return "" if describe is None else describe(link.processor, text, token_id)


# The explanations of DoLa and of watermarks report these themselves.
_SELF_EXPLAINED = ("LayerContrast", "SynthIDTextWatermark", "SynthId")


def find_blocking_filter(chain: FilterChain, token_id: int) -> str:
    """Return the processor without which the token would have been the best, "" for none.

    Filters that only cut are skipped: they keep the order of the tokens that they leave.
    """
    for place, link in reversed(list(enumerate(chain.links))):
        if place < chain.start or _keeps_order(link.name):
            continue
        if int(chain.scores_without(place)[chain.row].argmax()) == token_id:
            return link.name
    return ""


def _keeps_order(name: str) -> bool:
    return name in FILTERS and FILTERS[name].keeps_order


def row_values(scores: torch.Tensor, row: int) -> torch.Tensor:
    """Return (vocab,) scores of a row with removed tokens at -inf."""
    values = scores[row]
    return values.masked_fill(~(values > IMPOSSIBLE_SCORE), -torch.inf)


def token_name(place: ReplayedStep, token_id: int) -> str:
    """Return a token in quotation marks."""
    return quote_token(place.piece(token_id))


def run_sequence_bias(place: ReplayedStep) -> Any:
    """Return the run's own ``sequence_bias``."""
    return getattr(place.run.config, "sequence_bias", None) if place.run else None
