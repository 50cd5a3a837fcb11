"""Answer keys of bets, computed from the recorded runs, and the marking of answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import shown
from engine.lessons.expressions import number
from engine.lessons.influence_records import Looked
from engine.lessons.lesson import Bet, Card, Lesson, LessonError
from engine.lessons.run_values import Record, at, best, bits, candidate, run_of
from engine.lessons.value_text import Teller
from engine.statistics.metrics import perplexity_of
from engine.trace.records import Trace

MAX_WORDS = 400
"""Most characters of a free-text answer."""


@dataclass(frozen=True)
class Key:
    """The options of a bet and the right answer.

    Attributes:
        options: the options in display order, which does not reveal the answer.
        probabilities: token bets: the model's own probabilities of the options; else empty.
        right: indices of right options: one, or for an order all from first to last; empty for a
            number and a free text.
        value: the right number in the unit of the bet; None for all other kinds.
    """

    options: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    right: tuple[int, ...] = ()
    value: float | None = None


class Opened:
    """A lesson with its recorded runs.

    Args:
        lesson: the lesson.
        traces: name of a run -> its trace.
        looked: name of a run -> its influence answers; missing names have none.
    """

    def __init__(
        self,
        lesson: Lesson,
        traces: Mapping[str, Trace],
        looked: Mapping[str, Sequence[Looked]] | None = None,
    ) -> None:
        self.lesson, self.traces, self.looked = lesson, traces, looked or {}
        self.runs: dict[str, Record] = {
            name: run_of(trace, self.looked.get(name, ())) for name, trace in traces.items()
        }

    def teller(self, card: Card) -> Teller:
        """Return a ``Teller`` for a card, with the names ``run``, ``step`` and ``runs``.

        A second scene adds ``other`` and ``other_step``.

        Raises:
            LessonError: a scene's step is not in its run.
        """
        names: dict[str, Any] = {"runs": self.runs}
        for scene, prefix in zip(card.scenes, ("", "other_"), strict=False):
            run = self.runs[scene.run]
            steps = len(run["steps"])
            if scene.step > steps:
                raise LessonError(
                    f"Card {card.number}: step = {scene.step} is not there, the run {scene.run} has {steps}."
                )
            names[prefix.rstrip("_") or "run"] = run
            names[f"{prefix}step"] = at(run, scene.step)
        return Teller(names, self.lesson.language)

    def key(self, card: Card) -> Key | None:
        """Return the answer key of a card's bet; None if it has no bet.

        Raises:
            LessonError: no option or more than one is right.
        """
        if card.bet is None:
            return None
        try:
            return _KEYS[card.bet.kind](card.bet, self.teller(card))
        except LessonError as error:
            said = str(error)
            where = f"Card {card.number}"
            raise LessonError(said if said.startswith(where) else f"{where}, bet: {said}") from None


def _token(bet: Bet, teller: Teller) -> Key:
    step = teller.names["step"]
    answer = teller.value(bet.answer or "step.token")
    try:
        found = (
            [candidate(step, option.text) for option in bet.options]
            if bet.options
            else [best(step, place) for place in range(1, bet.among + 1)]
        )
    except (StopIteration, ValueError):
        raise LessonError("a token is offered that the step's record has not.") from None
    # Alphabetical, so that the position does not reveal the answer.
    found.sort(key=lambda one: (one["token"].strip().casefold(), one["token"]))
    texts = tuple(one["token"] for one in found)
    if texts.count(answer) != 1:
        raise LessonError(f"the right token, {shown(answer)}, has to be offered once.")
    return Key(texts, tuple(one["p"] for one in found), (texts.index(answer),))


def _number(bet: Bet, teller: Teller) -> Key:
    value = number(teller.value(bet.answer))
    value = 100 * value if bet.unit == "percent" else bits(value) if bet.unit == "bits" else value
    if not bet.low <= value <= bet.high:
        raise LessonError(
            f"the right number, {value:g}, is not between {bet.low:g} and {bet.high:g}."
        )
    return Key(value=value)


def _truth(bet: Bet, teller: Teller) -> Key:
    # Index 0 is true and 1 is false, as in ``Language.truths``.
    return Key(right=(int(not teller.holds(bet.answer)),))


def _choice(bet: Bet, teller: Teller) -> Key:
    right = [i for i, option in enumerate(bet.options) if teller.holds(option.when)]
    if len(right) != 1:
        raise LessonError(f"exactly one option has to be right, and {len(right)} are.")
    return Key(tuple(teller.filled(option.text) for option in bet.options), right=tuple(right))


def _order(bet: Bet, teller: Teller) -> Key:
    rows = [(teller.filled(o.text), number(teller.value(o.when))) for o in bet.options]
    # Alphabetical, so that the position does not reveal the order.
    rows.sort(key=lambda row: row[0].strip().casefold())
    values = [value for _, value in rows]
    if len(set(values)) != len(values):
        raise LessonError("two of the things to order are equal.")
    right = sorted(range(len(rows)), key=lambda i: -values[i])
    return Key(tuple(text for text, _ in rows), right=tuple(right))


_KEYS = {
    "token": _token,
    "number": _number,
    "truth": _truth,
    "choice": _choice,
    "order": _order,
    "text": lambda bet, teller: Key(),
}


def checked_answer(bet: Bet, key: Key, answer: Any) -> Any:
    """Return a validated answer.

    Args:
        bet: the bet.
        key: the answer key of the bet.
        answer: index of an option, all indices in an order, a number, or a text.

    Raises:
        LessonError: the bet does not allow this answer.
    """
    if bet.kind == "number":
        if type(answer) not in (int, float) or not bet.low <= answer <= bet.high:
            raise LessonError(
                f"answer = {shown(answer)} is not allowed: from {bet.low:g} to {bet.high:g}."
            )
        return float(answer)
    if bet.kind == "text":
        if not isinstance(answer, str) or not 0 < len(answer) <= MAX_WORDS:
            raise LessonError(f"answer has 1 to {MAX_WORDS} characters.")
        return answer
    places = 2 if bet.kind == "truth" else len(key.options)
    if bet.kind == "order":
        if not isinstance(answer, list) or _is_no_order(answer, places):
            raise LessonError(f"answer has to name each of the {places} things once.")
        return answer
    if type(answer) is not int or not 0 <= answer < places:
        raise LessonError(
            f"answer = {shown(answer)} is not allowed: a place from 0 to {places - 1}."
        )
    return answer


def _is_no_order(answer: list[Any], places: int) -> bool:
    """Return whether a list is no permutation of the indices below `places`."""
    return any(type(one) is not int for one in answer) or sorted(answer) != list(range(places))


def is_right(bet: Bet, key: Key, answer: Any) -> bool | None:
    """Return whether a validated answer is right; None for a free text."""
    if bet.kind == "text":
        return None
    if bet.kind == "number":
        assert key.value is not None
        # The factor absorbs rounding, so that an answer exactly at the tolerance counts.
        return abs(answer - key.value) <= bet.tolerance * (1 + 1e-9)
    if bet.kind == "order":
        return tuple(answer) == key.right
    return answer == key.right[0]


def crowd_perplexity(key: Key, answers: list[int]) -> float | None:
    """Return exp(-mean log p) of the tokens bet on, p being the model's; None without answers."""
    if not key.probabilities or not answers:
        return None
    return perplexity_of([math.log(max(key.probabilities[a], 1e-300)) for a in answers])
