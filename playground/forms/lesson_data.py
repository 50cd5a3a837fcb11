"""Lessons as JSON values: the parts of a card to show before the bet and after it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from engine.lessons.answer_key import AnswerKey, LessonWithRuns
from engine.lessons.lesson import Card, Lesson, Scene
from engine.lessons.library import build_run_request
from engine.media import list_examples
from engine.trace.records import Trace, replay_ids
from playground.forms import markdown
from playground.forms.links import to_form, trace_form
from playground.forms.media_inputs import example_url
from playground.i18n.languages import spec_catalogue


def card_before_bet(opened: LessonWithRuns, card: Card) -> dict[str, Any]:
    """Return the part of a card to show before the bet, without anything that reveals the answer.

    Returns:
        ``number``, ``title``, ``hide``, ``situation`` (a tree of ``markdown``); ``scenes``, each
        with ``run``, ``step``, ``until``, ``pictures``, ``strategy``, ``media`` (see ``media_json``) and
        ``text``, which ends before the step if the future is hidden; and ``bet``, None or ``kind``,
        ``question``, ``options`` (trees), ``low``, ``high``, ``by``, ``tolerance`` and ``unit``.
    """
    teller = opened.value_writer(card)
    return {
        "number": card.number,
        "title": card.title,
        "hide": card.hide,
        "situation": markdown.parse_markdown(card.situation, teller),
        "scenes": [_scene_json(opened, scene, card.hide) for scene in card.scenes],
        "bet": _bet_json(opened, card),
    }


def card_after_bet(opened: LessonWithRuns, card: Card) -> dict[str, Any]:
    """Return the part of a card to show after the bet.

    Returns:
        ``reveal``, ``why`` and ``turn`` (trees), ``myth``; ``key``, None or ``right``, ``value``
        and ``probabilities`` as in ``AnswerKey`` with ``told``, the answer in words; and ``opens``, the
        form that the card opens in a tab, or None.
    """
    teller = opened.value_writer(card)
    key = opened.answer_key(card)
    return {
        "reveal": markdown.parse_markdown(card.reveal, teller),
        "why": markdown.parse_markdown(card.why, teller),
        "turn": markdown.parse_markdown(card.turn, teller),
        "myth": card.myth,
        "key": None if key is None else {**_key_json(key), "told": answer_text(opened, card, key)},
        "opens": _form_json(opened, card),
    }


def lesson_summary(lesson: Lesson) -> dict[str, Any]:
    """Return a lesson's entry for the list of lessons."""
    names = ("name", "language", "title", "audience", "summary", "minutes")
    found = {name: getattr(lesson, name) for name in names}
    return {**found, "cards": [card.title for card in lesson.cards]}


def answer_text(opened: LessonWithRuns, card: Card, key: AnswerKey) -> str:
    """Return the right answer as text in the lesson's language; empty if there is none."""
    assert card.bet is not None
    language = opened.value_writer(card).language
    if key.value is not None:
        if card.bet.unit == "percent":
            return language.percent(key.value / 100)
        return language.number(int(key.value) if key.value == int(key.value) else key.value)
    if card.bet.kind == "truth":
        return language.truths[key.right[0]]
    return " · ".join(key.options[place] for place in key.right)


def _key_json(key: AnswerKey) -> dict[str, Any]:
    return {
        "right": list(key.right),
        "value": key.value,
        "probabilities": list(key.probabilities),
    }


def _bet_json(opened: LessonWithRuns, card: Card) -> dict[str, Any] | None:
    bet, key = card.bet, opened.answer_key(card)
    if bet is None or key is None:
        return None
    return {
        "kind": bet.kind,
        "question": markdown.parse_inline(bet.question, opened.value_writer(card)),
        "options": list(key.options),
        "low": bet.low,
        "high": bet.high,
        "by": bet.by,
        "tolerance": bet.tolerance,
        "unit": bet.unit,
    }


def _scene_json(opened: LessonWithRuns, scene: Scene, hide: str) -> dict[str, Any]:
    trace = opened.traces[scene.run]
    # With a hidden future the text stops before the step to bet on.
    seen = scene.step - 1 if hide == "future" else scene.until or len(trace.steps)
    return {
        **dataclasses.asdict(scene),
        "pictures": list(scene.pictures),
        "strategy": trace.strategy,
        "media": media_json(trace, opened.lesson.language),
        "prompt": trace.prompt or "",
        "text": text_after_steps(trace, seen, trace.steps[scene.step - 1].sequence),
    }


def media_json(trace: Trace, language: str) -> list[dict[str, Any]]:
    """Return a run's images and audio files, one dict each.

    Returns:
        The fields of ``MediaInfo``; ``alt``, the image's description in ``language``; and ``src``,
        its URL, empty if it is not a built-in example.
    """
    # Listing the examples reads files.
    known = {one.name: one for one in list_examples()} if trace.media else {}
    found = []
    for info in trace.media:
        example = known.get(info.example or "")
        # The description of a recording may be the answer of the bet.
        seen = example.alt if example and info.kind == "image" else ""
        src = example_url(example) if example else ""
        found.append(
            {
                **dataclasses.asdict(info),
                "alt": spec_catalogue(language).get(seen, seen),
                "src": src,
            }
        )
    return found


def text_after_steps(trace: Trace, steps: int, sequence: int) -> str:
    """Return the text of one output after the first ``steps`` steps of a run."""
    ids = replay_ids(tuple(s for s in trace.steps[:steps] if s.sequence == sequence))
    return "".join(trace.pieces.get(i, "") for i in ids if i not in trace.special_token_ids)


def _form_json(opened: LessonWithRuns, card: Card) -> Mapping[str, Any] | None:
    """Return the form that a card opens in a tab, with the parameters that it changes, or None."""
    if card.opens is None:
        return None
    run = opened.lesson.runs[card.opens.run]
    if run.recorded:
        return trace_form(opened.traces[run.name])
    request = build_run_request(run)
    return to_form(dataclasses.replace(request, params={**request.params, **card.opens.params}))
