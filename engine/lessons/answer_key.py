"""Answer keys of bets, computed from the recorded runs, and the marking of answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engine.errors import format_value
from engine.lessons.expressions import to_finite_number
from engine.lessons.influence_records import InfluenceRecord
from engine.lessons.lesson import Bet, Card, Lesson, LessonError
from engine.lessons.run_values import (
    Record,
    candidate_at_rank,
    candidate_with_text,
    nats_to_bits,
    run_record,
    step_at,
)
from engine.lessons.value_text import ValueWriter
from engine.messages import Message
from engine.statistics.metrics import perplexity_from_logprobs
from engine.trace.dial_map import DialMap
from engine.trace.records import Trace

MAX_TEXT_CHARS = 400
"""Most characters of a free-text answer."""


@dataclass(frozen=True)
class AnswerKey:
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


class LessonWithRuns:
    """A lesson with its recorded runs.

    Args:
        lesson: the lesson.
        traces: name of a run -> its trace.
        looked: name of a run -> its influence answers; missing names have none.
        maps: name of a run -> the maps of its dials; missing names have none.
    """

    def __init__(
        self,
        lesson: Lesson,
        traces: Mapping[str, Trace],
        looked: Mapping[str, Sequence[InfluenceRecord]] | None = None,
        maps: Mapping[str, Mapping[str, DialMap]] | None = None,
    ) -> None:
        self.lesson, self.traces, self.looked, self.maps = lesson, traces, looked or {}, maps or {}
        self.runs: dict[str, Record] = {
            name: run_record(trace, self.looked.get(name, ()), self.maps.get(name))
            for name, trace in traces.items()
        }

    def value_writer(self, card: Card) -> ValueWriter:
        """Return a ``ValueWriter`` for a card, with the names ``run``, ``step`` and ``runs``.

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
                    "Card {number}: step = {step} is not there, the run {run} has {steps}.",
                    number=card.number,
                    step=scene.step,
                    run=scene.run,
                    steps=steps,
                )
            names[prefix.rstrip("_") or "run"] = run
            names[f"{prefix}step"] = step_at(run, scene.step)
        return ValueWriter(names, self.lesson.language)

    def answer_key(self, card: Card) -> AnswerKey | None:
        """Return the answer key of a card's bet; None if it has no bet.

        Raises:
            LessonError: no option or more than one is right.
        """
        if card.bet is None:
            return None
        try:
            return _KEY_BUILDERS[card.bet.kind](card.bet, self.value_writer(card))
        except LessonError as error:
            said = str(error)
            if said.startswith(Message("Card {number}", number=card.number)):
                raise
            raise LessonError(
                "Card {number}, bet: {error}", number=card.number, error=said
            ) from None


def _token_key(bet: Bet, teller: ValueWriter) -> AnswerKey:
    step = teller.names["step"]
    answer = teller.value(bet.answer or "step.token")
    try:
        found = (
            [candidate_with_text(step, option.text) for option in bet.options]
            if bet.options
            else [candidate_at_rank(step, place) for place in range(1, bet.among + 1)]
        )
    except (StopIteration, ValueError):
        raise LessonError("a token is offered that the step's record has not.") from None
    # Alphabetical, so that the position does not reveal the answer.
    found.sort(key=lambda one: (one["token"].strip().casefold(), one["token"]))
    texts = tuple(one["token"] for one in found)
    if texts.count(answer) != 1:
        raise LessonError(
            "the right token, {answer}, has to be offered once.", answer=format_value(answer)
        )
    return AnswerKey(texts, tuple(one["p"] for one in found), (texts.index(answer),))


def _number_key(bet: Bet, teller: ValueWriter) -> AnswerKey:
    value = to_finite_number(teller.value(bet.answer))
    value = (
        100 * value
        if bet.unit == "percent"
        else nats_to_bits(value)
        if bet.unit == "bits"
        else value
    )
    if not bet.low <= value <= bet.high:
        raise LessonError(
            "the right number, {value}, is not between {low} and {high}.",
            value=f"{value:g}",
            low=f"{bet.low:g}",
            high=f"{bet.high:g}",
        )
    return AnswerKey(value=value)


def _truth_key(bet: Bet, teller: ValueWriter) -> AnswerKey:
    # Index 0 is true and 1 is false, as in ``LanguageFormat.truths``.
    return AnswerKey(right=(int(not teller.is_true(bet.answer)),))


def _choice_key(bet: Bet, teller: ValueWriter) -> AnswerKey:
    right = [i for i, option in enumerate(bet.options) if teller.is_true(option.when)]
    if len(right) != 1:
        raise LessonError("exactly one option has to be right, and {right} are.", right=len(right))
    return AnswerKey(
        tuple(teller.fill_text(option.text) for option in bet.options), right=tuple(right)
    )


def _order_key(bet: Bet, teller: ValueWriter) -> AnswerKey:
    rows = [(teller.fill_text(o.text), to_finite_number(teller.value(o.when))) for o in bet.options]
    # Alphabetical, so that the position does not reveal the order.
    rows.sort(key=lambda row: row[0].strip().casefold())
    values = [value for _, value in rows]
    if len(set(values)) != len(values):
        raise LessonError("two of the things to order are equal.")
    right = sorted(range(len(rows)), key=lambda i: -values[i])
    return AnswerKey(tuple(text for text, _ in rows), right=tuple(right))


_KEY_BUILDERS = {
    "token": _token_key,
    "number": _number_key,
    "truth": _truth_key,
    "choice": _choice_key,
    "order": _order_key,
    "text": lambda bet, teller: AnswerKey(),
}


def check_answer(bet: Bet, key: AnswerKey, answer: Any) -> Any:
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
                "answer = {answer} is not allowed: from {low} to {high}.",
                answer=format_value(answer),
                low=f"{bet.low:g}",
                high=f"{bet.high:g}",
            )
        return float(answer)
    if bet.kind == "text":
        if not isinstance(answer, str) or not 0 < len(answer) <= MAX_TEXT_CHARS:
            raise LessonError("answer has 1 to {most} characters.", most=MAX_TEXT_CHARS)
        return answer
    places = 2 if bet.kind == "truth" else len(key.options)
    if bet.kind == "order":
        if not isinstance(answer, list) or _is_not_permutation(answer, places):
            raise LessonError("answer has to name each of the {places} things once.", places=places)
        return answer
    if type(answer) is not int or not 0 <= answer < places:
        raise LessonError(
            "answer = {answer} is not allowed: a place from 0 to {last}.",
            answer=format_value(answer),
            last=places - 1,
        )
    return answer


def _is_not_permutation(answer: list[Any], places: int) -> bool:
    """Return whether a list is no permutation of the indices below `places`."""
    return any(type(one) is not int for one in answer) or sorted(answer) != list(range(places))


def is_right(bet: Bet, key: AnswerKey, answer: Any) -> bool | None:
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


def crowd_perplexity(key: AnswerKey, answers: list[int]) -> float | None:
    """Return exp(-mean log p) of the tokens bet on, p being the model's; None without answers."""
    if not key.probabilities or not answers:
        return None
    # A probability so small that it was recorded as 0 has no logarithm.
    return perplexity_from_logprobs([math.log(max(key.probabilities[a], 1e-300)) for a in answers])
