"""Check that a lesson's recorded runs support its statements."""

from __future__ import annotations

from collections.abc import Iterator

from engine.errors import EngineError
from engine.lessons.answer_key import LessonWithRuns
from engine.lessons.lesson import DIAL_MAP_PICTURE, INFLUENCE_PICTURE, Card, LessonError
from engine.lessons.value_text import quoted_expressions
from engine.messages import Message
from engine.strategies import STRATEGIES

_TEXT_PICTURE = "text"
"""Name of the picture that every run has."""


def find_faults(opened: LessonWithRuns) -> list[str]:
    """Return one sentence for each fault of a lesson; empty if its runs support it."""
    return [fault for card in opened.lesson.cards for fault in _card_faults(opened, card)]


def _card_faults(opened: LessonWithRuns, card: Card) -> Iterator[str]:
    where = Message("Card {number}", number=card.number)
    try:
        teller = opened.value_writer(card)
    except LessonError as error:
        yield str(error)
        return
    yield from _scene_faults(opened, card)
    try:
        opened.answer_key(card)
    except LessonError as error:
        yield str(error)
    for claim in card.holds:
        try:
            if not teller.is_true(claim):
                yield Message("{where}: “{claim}” does not hold.", where=where, claim=claim)
        except LessonError as error:
            yield Message("{where}, holds: {error}", where=where, error=str(error))
    for text in card_texts(card):
        for expression in quoted_expressions(text):
            try:
                teller.text(expression)
            except LessonError as error:
                yield Message("{name}: {reached}", name=where, reached=error)


def _scene_faults(opened: LessonWithRuns, card: Card) -> Iterator[str]:
    for scene in card.scenes:
        trace = opened.traces[scene.run]
        strategy = STRATEGIES.get(trace.strategy)
        seen = {one["look"]["step"] for one in opened.looked.get(scene.run, ())}
        known = (
            _TEXT_PICTURE,
            *(strategy.visuals if strategy else ()),
            *([INFLUENCE_PICTURE] if scene.step in seen else ()),
            *([DIAL_MAP_PICTURE] if opened.maps.get(scene.run) else ()),
        )
        for picture in scene.pictures:
            if picture not in known:
                yield Message(
                    "Card {number}: the run {run} has no picture {picture}, but {known}.",
                    number=card.number,
                    run=scene.run,
                    picture=repr(picture),
                    known=", ".join(known),
                )
        if scene.until is not None and not scene.step <= scene.until <= len(trace.steps):
            yield (
                Message(
                    "Card {number}: until = {until} is not allowed: from {step} to {steps}, or "
                    "“end”.",
                    number=card.number,
                    until=scene.until,
                    step=scene.step,
                    steps=len(trace.steps),
                )
            )
    if card.opens:
        yield from _open_action_faults(opened, card)


def _open_action_faults(opened: LessonWithRuns, card: Card) -> Iterator[str]:
    """Yield the faults of the settings that a card opens."""
    assert card.opens is not None
    run = opened.lesson.runs[card.opens.run]
    if run.recorded:
        if card.opens.params:
            yield Message(
                "Card {number}, open: a recorded run is opened as it is.", number=card.number
            )
        return
    from dataclasses import replace

    from engine.lessons.library import build_run_request
    from engine.run.request import check_request

    request = build_run_request(run)
    try:
        check_request(replace(request, params={**request.params, **card.opens.params}))
    except EngineError as error:
        yield Message("Card {number}, open: {error}", number=card.number, error=error)


def card_texts(card: Card) -> Iterator[str]:
    """Yield all texts of a card that may quote values."""
    yield from (card.situation, card.reveal, card.why, card.turn)
    if card.bet:
        yield card.bet.question
        # The option of a token bet is the token's text and quotes nothing.
        yield from (o.text for o in card.bet.options if card.bet.kind != "token")
