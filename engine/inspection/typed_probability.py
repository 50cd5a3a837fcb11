"""The model's probability of a typed text at a step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from engine.inspection.beams import search_of
from engine.inspection.explanation import shown
from engine.inspection.rerun import Moment, View
from engine.inspection.typed_token import ids_before, read
from engine.loops.beams.step_record import best_kept
from engine.trace.details import BeamDetail, DraftDetail


@dataclass(frozen=True)
class Odds:
    """A typed text as a guess of a step's token.

    Attributes:
        token_id: the first token of the text.
        name: the token as the page shows it.
        logprob: its log-probability in the model, nats, over the whole vocabulary, before any
            processor; None if it is impossible.
        rank: its rank in the model's distribution; 0 is the most probable.
        said: a sentence on how the text was tokenized, "" for none.
    """

    token_id: int
    name: str
    logprob: float | None
    rank: int
    said: str


def odds_of(place: Moment, text: str) -> Odds:
    """Return the model's probability of a text; a word may be typed without its leading space.

    Both readings are tried. A single token is preferred to the first token of several, then the
    more probable reading.

    Args:
        place: the replayed step; see ``again.place_of``.
        text: 1 to 200 characters.

    Raises:
        ParameterError: the text has no tokens, or only recorded candidates are known and it is not
            one of them.
    """
    readings = dict.fromkeys((text, text if text[:1].isspace() else f" {text}"))
    found = _computed(place, readings) if place.views else _recorded(place, readings)
    return min(found, key=lambda odds: (odds.said != "", odds.rank))


def _recorded(place: Moment, readings: Iterable[str]) -> list[Odds]:
    known = {candidate.token_id: candidate for candidate in place.step.candidates}
    found = []
    for text in readings:
        token, said = read(place, text, ids_before(place))
        own = known[token]
        logprob = None if own.raw_logprob == -math.inf else own.raw_logprob
        found.append(Odds(token, shown(place.piece(token)), logprob, own.rank, said))
    return found


def _computed(place: Moment, readings: Iterable[str]) -> list[Odds]:
    view, row = _decided_from(place)
    is_search = isinstance(place.step.detail, BeamDetail)
    before = view.input_ids[row].tolist() if is_search else ids_before(place)
    logprobs = torch.log_softmax(view.logits[row].double(), -1)
    found = []
    for text in readings:
        token, said = read(place, text, before)
        own = float(logprobs[token])
        rank = int((logprobs > own).sum())
        logprob = None if own == -math.inf else own
        found.append(Odds(token, shown(place.piece(token)), logprob, rank, said))
    return found


def _decided_from(place: Moment) -> tuple[View, int]:
    """Return the pass, and its row, whose candidates the step recorded."""
    detail = place.step.detail
    if isinstance(detail, DraftDetail):
        return place.views[len(place.step.emit) - 1], 0
    if not isinstance(detail, BeamDetail):
        return place.views[0], place.row
    search, leader = search_of(place, detail), best_kept(detail.pool)
    team = next(team for team in search.teams if team.number == leader.group)
    return place.views[search.teams.index(team)], team.nodes.index(leader.parent_id)
