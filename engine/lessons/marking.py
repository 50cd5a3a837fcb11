"""What is right: the key of a bet, computed from the runs, and an answer held against it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import shown
from engine.lessons.expressions import number
from engine.lessons.lesson import Bet, Card, Lesson, LessonError
from engine.lessons.looks import Looked
from engine.lessons.told import Teller
from engine.lessons.values import Record, at, best, bits, candidate, run_of
from engine.reading.metrics import perplexity_of
from engine.trace.records import Trace

MAX_WORDS = 400
"""Characters of a free text."""


@dataclass(frozen=True)
class Key:
    """What there is to choose from, and what is right.

    Attributes:
        options: in the order in which they are offered, which gives nothing away.
        probabilities: the model's own, of the tokens of a bet on a token; else empty.
        right: places among the options: one, for an order all of them from first to last; empty for a
            number and a free text.
        value: the right number in the unit of the bet; None for all other kinds.
    """

    options: tuple[str, ...] = ()
    probabilities: tuple[float, ...] = ()
    right: tuple[int, ...] = ()
    value: float | None = None


class Opened:
    """A lesson with its runs.

    Args:
        lesson: what is told.
        traces: by the names of its runs.
        looked: what their steps looked at, likewise; none for those that are not named.
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
        """Return what tells values in a card's words: ``run``, ``step`` and ``runs`` are known to it.

        ``other`` and ``other_step`` are those of a second scene.

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
        """Return the key of a card's bet, None where it has none.

        Raises:
            LessonError: nothing, or more than one thing, is right.
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
    return Key(right=(int(not teller.holds(bet.answer)),))


def _choice(bet: Bet, teller: Teller) -> Key:
    right = [i for i, option in enumerate(bet.options) if teller.holds(option.when)]
    if len(right) != 1:
        raise LessonError(f"exactly one option has to be right, and {len(right)} are.")
    return Key(tuple(teller.filled(option.text) for option in bet.options), right=tuple(right))


def _order(bet: Bet, teller: Teller) -> Key:
    rows = [(teller.filled(o.text), number(teller.value(o.when))) for o in bet.options]
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
    """Return an answer as it can be counted.

    Args:
        bet: what was asked.
        key: of the bet.
        answer: a place among the options, all places in an order, a number, or words.

    Raises:
        LessonError: it is none of those that the bet allows.
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
    """Return whether a list does not have every place once."""
    return any(type(one) is not int for one in answer) or sorted(answer) != list(range(places))


def is_right(bet: Bet, key: Key, answer: Any) -> bool | None:
    """Return whether a checked answer is right, None where nothing is marked."""
    if bet.kind == "text":
        return None
    if bet.kind == "number":
        assert key.value is not None
        return abs(answer - key.value) <= bet.tolerance * (1 + 1e-9)
    if bet.kind == "order":
        return tuple(answer) == key.right
    return answer == key.right[0]


def crowd_perplexity(key: Key, answers: list[int]) -> float | None:
    """Return exp(-mean log p) of the tokens that were bet on, p the model's own; None without any."""
    if not key.probabilities or not answers:
        return None
    return perplexity_of([math.log(max(key.probabilities[a], 1e-300)) for a in answers])
