"""Votes of blind comparisons between two settings of a table, counted and judged by a sign test."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.analysis.tune.plan import TunePlan
from engine.errors import ParameterError
from engine.messages import Message
from engine.number_text import format_number
from engine.statistics.sign_test import sign_test
from engine.trace.value_types import JsonValue

MAX_VOTES = 10_000
_LEVEL = 0.05
"""Largest p-value with which one setting is called preferred."""


@dataclass(frozen=True)
class Vote:
    """What somebody preferred who saw a text of each of two settings, without their names."""

    prompt: int
    """Place of the prompt of both texts in the plan."""
    pair: tuple[int, int]
    """Places of the two settings."""
    preferred: int | None
    """The setting whose text was preferred; None for no difference."""


@dataclass(frozen=True)
class VoteCount:
    """Votes for and against a setting; those for no difference count for neither."""

    won: int
    lost: int

    @property
    def share(self) -> float | None:
        """Share of the votes that it won, None if there are none."""
        return self.won / (self.won + self.lost) if self.won + self.lost else None


def count_votes(votes: Iterable[Vote], setting: int, prompt: int | None = None) -> VoteCount:
    """Return the votes about a setting, of one prompt or of all."""
    decided = [
        one.preferred == setting
        for one in votes
        if setting in one.pair and one.preferred is not None and prompt in (None, one.prompt)
    ]
    return VoteCount(sum(decided), len(decided) - sum(decided))


def votes_text(votes: Sequence[Vote], ranked: Sequence[int], names: Sequence[str]) -> str:
    """Return which of two settings was preferred, or that this is not clear.

    Args:
        votes: all votes of a table.
        ranked: the settings with votes, most preferred first.
        names: of all settings.
    """
    first = ranked[0]
    against = {
        other: [one for one in votes if {first, other} == set(one.pair)] for other in ranked[1:]
    }
    # The next one in the order, unless the two were never compared.
    second = next((other for other, own in against.items() if own), None)
    if second is None:
        return Message("{a} was in no blind comparison with another setting.", a=names[first])
    count = count_votes(against[second], first)
    trials = count.won + count.lost
    p = sign_test(count.won, trials)
    values = {
        "a": names[first],
        "b": names[second],
        "won": count.won,
        "trials": trials,
        "p": format_number(p, 2),
    }
    if p <= _LEVEL and count.won > count.lost:
        return Message("{a} was preferred to {b} in {won} of {trials} votes (p = {p}).", **values)
    return Message(
        "No clear preference: {a} was preferred to {b} in {won} of {trials} votes (p = {p}).",
        **values,
    )


def read_votes(given: JsonValue, plan: TunePlan) -> tuple[Vote, ...]:
    """Return the votes of JSON values: objects with ``prompt``, ``pair`` and ``preferred``.

    Raises:
        ParameterError: one is not about two settings and a prompt of the plan, or there are too many.
    """
    allowed = Message("it must be a list of at most {most} votes", most=MAX_VOTES)
    if not isinstance(given, list) or len(given) > MAX_VOTES:
        raise ParameterError("votes", type(given).__name__, allowed)
    return tuple(_read_vote(one, plan) for one in given)


def _read_vote(given: JsonValue, plan: TunePlan) -> Vote:
    why = Message("a vote is about a prompt and two settings of the table")
    if not isinstance(given, dict):
        raise ParameterError("votes", str(given)[:40], why)
    prompt, pair, preferred = (given.get(name) for name in ("prompt", "pair", "preferred"))
    places = [prompt, *(pair if isinstance(pair, list) else [])]
    whole = [one for one in places if isinstance(one, int) and not isinstance(one, bool)]
    if len(places) == len(whole) == 3:
        place, a, b = whole
        settings = range(len(plan.settings))
        known = place in range(len(plan.prompts)) and a in settings and b in settings
        if known and a != b and preferred in (a, b, None):
            return Vote(place, (a, b), None if preferred is None else a if preferred == a else b)
    raise ParameterError("votes", str(given)[:60], why)
