"""The steps of an answer: candidates with ids, and bounds on what the server did not report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.endpoints.answer import ReportedStep, ReportedToken
from engine.endpoints.token_names import TokenNames
from engine.errors import TraceError
from engine.statistics.unseen_mass import entropy_bounds, unseen_mass
from engine.trace.checks import MAX_CANDIDATES
from engine.trace.records import Candidate, Step
from engine.trace.served import ServedDetail
from engine.trace.value_types import TokenId

LARGEST_VOCABULARY = 2**20
"""No vocabulary is larger; bounds on entropy use it where the size is unknown."""
_SAME_LOGPROB = 1e-5
_MOST_SUM = 1 + 1e-3


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What all steps of an answer have in common."""

    names: TokenNames
    distribution: str
    lists_best: bool
    vocab_size: int | None


def build_step(
    reported: ReportedStep, index: int, keep: int, sequence: int, facts: StepFacts
) -> Step:
    """Return the step of one reported token.

    Raises:
        TraceError: the probabilities sum to more than 1, or a token is listed twice.
    """
    chosen = reported.chosen
    top = sorted(_reported_only(reported.top), key=lambda token: -_logprob(token))
    merged = _is_merged(chosen, top)
    place = _find_chosen(chosen, top, merged)
    key = _name_chosen(chosen, top, place, merged, facts.names)
    listed = [
        (key if at == place else _name_other(token, top[:at], facts.names), _logprob(token))
        for at, token in enumerate(top)
    ]
    if place is None and chosen.logprob is not None:
        listed.append((key, chosen.logprob))
    if len({token_id for token_id, _ in listed}) < len(listed):
        raise TraceError("Token {n} of the answer lists the same candidate twice.", n=index + 1)
    seen = [math.exp(logprob) for _, logprob in listed]
    if math.fsum(seen) > _MOST_SUM:
        raise TraceError(
            "Token {n} of the answer has probabilities that sum to {sum}.",
            n=index + 1,
            sum=f"{math.fsum(seen):.3f}",
        )
    cap = _largest_unseen([_logprob(token) for token in top], place, facts.lists_best)
    return Step(
        index,
        keep,
        (key,),
        _keep_best(listed, key),
        (),
        _describe(seen, cap, merged, facts),
        logsumexp=None,
        entropy=None,
        forward_passes=0,
        sequence=sequence,
    )


def _reported_only(top: Sequence[ReportedToken]) -> list[ReportedToken]:
    return [token for token in top if token.logprob is not None]


def _logprob(token: ReportedToken) -> float:
    return -math.inf if token.logprob is None else token.logprob


def _is_merged(chosen: ReportedToken, top: Sequence[ReportedToken]) -> bool:
    """Return True if a token's bytes include those of earlier tokens of the same character."""
    own = next((t for t in top if chosen.id is not None and t.id == chosen.id), None)
    return own is not None and None not in (own.raw, chosen.raw) and own.raw != chosen.raw


def _find_chosen(chosen: ReportedToken, top: Sequence[ReportedToken], merged: bool) -> int | None:
    """Return the place of the chosen token among the most probable ones, None if it is not there."""
    for at, token in enumerate(top):
        if chosen.id is not None and token.id is not None:
            if chosen.id == token.id:
                return at
        elif (
            # Without ids, two tokens may write the same bytes; then the log-probability tells them apart.
            not merged
            and chosen.raw == token.raw
            and math.isclose(_logprob(chosen), _logprob(token), abs_tol=_SAME_LOGPROB)
        ):
            return at
    return None


def _name_chosen(
    chosen: ReportedToken,
    top: Sequence[ReportedToken],
    place: int | None,
    merged: bool,
    names: TokenNames,
) -> TokenId:
    twin = place is None and any(_has_same_name(token, chosen) for token in top)
    if merged or twin:
        return names.add_separate(chosen.raw or b"")
    return names.add(chosen)


def _name_other(
    token: ReportedToken, before: Sequence[ReportedToken], names: TokenNames
) -> TokenId:
    # One id for both would make the list hold a candidate twice.
    if any(_has_same_name(other, token) for other in before):
        return names.add_separate(token.raw or b"")
    return names.add(token)


def _has_same_name(one: ReportedToken, other: ReportedToken) -> bool:
    """Return True if only their texts could tell two tokens apart, and do not."""
    return one.id is None and other.id is None and one.raw == other.raw


def _largest_unseen(top: Sequence[float], place: int | None, lists_best: bool) -> float:
    """Return the largest probability that a token outside the list can have.

    Args:
        top: the listed log-probabilities, largest first.
        place: of the chosen token among them.
        lists_best: False if a chosen token of low probability may have taken the last place.
    """
    if not lists_best and place == len(top) - 1:
        top = top[:-1]
    return math.exp(top[-1]) if top else 1.0


def _keep_best(listed: Sequence[tuple[TokenId, float]], key: TokenId) -> tuple[Candidate, ...]:
    """Return the candidates that a trace holds: the most probable ones, and the chosen one."""
    ranked = list(enumerate(listed))
    kept = ranked[:MAX_CANDIDATES]
    if all(token_id != key for _, (token_id, _) in kept):
        kept[MAX_CANDIDATES - 1 :] = [item for item in ranked if item[1][0] == key]
    return tuple(Candidate(token_id, logprob, logprob, rank) for rank, (token_id, logprob) in kept)


def _describe(seen: Sequence[float], cap: float, merged: bool, facts: StepFacts) -> ServedDetail:
    unseen_low, unseen_high = unseen_mass(seen)
    others = max(0, (facts.vocab_size or LARGEST_VOCABULARY) - len(seen))
    entropy_low, entropy_high = entropy_bounds(seen, cap, others)
    return ServedDetail(
        facts.distribution, unseen_low, unseen_high, entropy_low, entropy_high, merged
    )
