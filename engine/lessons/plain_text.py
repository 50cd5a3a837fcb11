"""A lesson as plain text, with all values filled in and answers after the questions."""

from __future__ import annotations

from engine.lessons.answer_key import AnswerKey, LessonWithRuns
from engine.lessons.lesson import Card


def lesson_to_text(opened: LessonWithRuns) -> str:
    """Return a lesson with its answers as plain text.

    Raises:
        LessonError: a value or an answer cannot be computed from its runs.
    """
    lesson = opened.lesson
    head = f"{lesson.title}\n{lesson.summary}\nFor {lesson.audience}; {lesson.minutes} minutes.\n"
    return "\n".join([head, *(_card_text(opened, card) for card in lesson.cards)])


def _card_text(opened: LessonWithRuns, card: Card) -> str:
    teller = opened.value_writer(card)
    parts = [f"{card.number}. {card.title}", teller.fill_text(card.situation)]
    key = opened.answer_key(card)
    if card.bet and key:
        parts += [f"? {teller.fill_text(card.bet.question)}", *(f"  - {o!r}" for o in key.options)]
        parts.append(f"= {_answer_text(opened, card, key)}")
    parts += [teller.fill_text(text) for text in (card.reveal, card.why, card.turn) if text]
    return "\n".join(part for part in parts if part) + "\n"


def _answer_text(opened: LessonWithRuns, card: Card, key: AnswerKey) -> str:
    assert card.bet is not None
    if card.bet.kind == "text":
        return "not marked"
    if key.value is not None:
        number = opened.value_writer(card).language.number
        return f"{number(round(key.value, 4))} {card.bet.unit} (± {number(card.bet.tolerance)})"
    if card.bet.kind == "truth":
        return opened.value_writer(card).language.truths[key.right[0]]
    return ", ".join(repr(key.options[place]) for place in key.right)
