"""The model's probability of a typed text at a step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from engine.inspection.rerun import ObservedPass, ReplayedStep
from engine.inspection.search_state import build_search_state
from engine.inspection.typed_token import ids_before, read_typed_token
from engine.loops.beams.step_record import best_kept_node
from engine.number_text import format_token
from engine.trace.details import BeamDetail, DraftDetail


@dataclass(frozen=True)
class TypedProbability:
    """A typed text as a guess of a step's token.

    Attributes:
        token_id: the first token of the text.
        name: the token as the page shows it.
        logprob: its log-probability in the model, nats, over the whole vocabulary, before any
            processor; None if it is impossible.
        rank: its rank in the model's distribution; 0 is the most probable.
        note: a sentence on how the text was tokenized, "" for none.
    """

    token_id: int
    name: str
    logprob: float | None
    rank: int
    note: str


def compute_typed_probability(place: ReplayedStep, text: str) -> TypedProbability:
    """Return the model's probability of a text; a word may be typed without its leading space.

    Both readings are tried. A single token is preferred to the first token of several, then the
    more probable reading.

    Args:
        place: the replayed step; see ``find_replayed_step``.
        text: 1 to 200 characters.

    Raises:
        ParameterError: the text has no tokens, or only recorded candidates are known and it is not
            one of them.
    """
    readings = dict.fromkeys((text, text if text[:1].isspace() else f" {text}"))
    found = (
        _score_from_logits(place, readings) if place.views else _score_from_record(place, readings)
    )
    # A reading that is one whole token comes first, then the more probable one.
    return min(found, key=lambda odds: (odds.note != "", odds.rank))


def _score_from_record(place: ReplayedStep, readings: Iterable[str]) -> list[TypedProbability]:
    known = {candidate.token_id: candidate for candidate in place.step.candidates}
    found = []
    for text in readings:
        token, note = read_typed_token(place, text, ids_before(place))
        own = known[token]
        logprob = None if own.raw_logprob == -math.inf else own.raw_logprob
        found.append(
            TypedProbability(token, format_token(place.piece(token)), logprob, own.rank, note)
        )
    return found


def _score_from_logits(place: ReplayedStep, readings: Iterable[str]) -> list[TypedProbability]:
    view, row = _find_deciding_pass(place)
    is_search = isinstance(place.step.detail, BeamDetail)
    before = view.input_ids[row].tolist() if is_search else ids_before(place)
    logprobs = torch.log_softmax(view.logits[row].double(), -1)
    found = []
    for text in readings:
        token, note = read_typed_token(place, text, before)
        own = float(logprobs[token])
        rank = int((logprobs > own).sum())
        logprob = None if own == -math.inf else own
        found.append(TypedProbability(token, format_token(place.piece(token)), logprob, rank, note))
    return found


def _find_deciding_pass(place: ReplayedStep) -> tuple[ObservedPass, int]:
    """Return the pass, and its row, whose candidates the step recorded."""
    detail = place.step.detail
    if isinstance(detail, DraftDetail):
        return place.views[len(place.step.emit) - 1], 0
    if not isinstance(detail, BeamDetail):
        return place.views[0], place.row
    search, leader = build_search_state(place, detail), best_kept_node(detail.pool)
    team = next(team for team in search.teams if team.number == leader.group)
    return place.views[search.teams.index(team)], team.nodes.index(leader.parent_id)
