"""Validate the fields of a lesson's YAML and build its runs and cards."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from engine.errors import format_value
from engine.inspection.influence_methods import ATTENTION, METHODS
from engine.lessons.field_reader import FieldReader
from engine.lessons.lesson import (
    BET_KINDS,
    BET_UNITS,
    HIDE_MODES,
    Bet,
    BetOption,
    Card,
    LessonError,
    LessonInfluence,
    LessonRun,
    OpenAction,
    Scene,
)
from engine.media.examples import EXAMPLE_PREFIX
from engine.messages import Message
from engine.trace.records import MEDIA_KINDS

CARD_FIELDS = {"run", "step", "until", "picture", "hide", "bet", "myth", "holds", "open"}
_RUN_FIELDS = {
    "recorded",
    "strategy",
    "model",
    "assistant",
    "prompt",
    "messages",
    "image",
    "audio",
    "seed",
    "params",
    "candidates",
    "looks",
}
_LOOK_FIELDS = {"name", "step", "method", "layer", "head"}
_BET_FIELDS = {
    "kind",
    "question",
    "options",
    "answer",
    "among",
    "from",
    "to",
    "by",
    "tolerance",
    "unit",
}
MAX_OPTIONS = 8
_MAX_CLAIMS = 12
_MAX_STEP = 100_000
_END = "end"
_MAX_LOOKS = 8
_MAX_PLACE = 1000
_LOOK_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def parse_run(name: str, given: object) -> LessonRun:
    """Return a run from the lesson's head."""
    found = FieldReader(given, Message("The run {name}", name=name), _RUN_FIELDS)
    if "recorded" in found.given:
        if len(found.given) > 1:
            raise LessonError(
                "{where} is a recorded one, so it can have no other fields.", where=found.where
            )
        return LessonRun(name, found.text("recorded", most=60))
    found.text("strategy", most=40)
    _check_run_input(found)
    if not isinstance(found.value("params", {}), Mapping):
        raise found.field_error("params", "it must be names with values")
    found.integer("candidates", 1, 50, 20)
    request = {field: value for field, value in found.given.items() if field != "looks"}
    return LessonRun(name, request=request, looks=_parse_looks(found))


def _check_run_input(found: FieldReader) -> None:
    """Check that a run has an input, and that its picture or sound is a built-in example."""
    given = [name for name in MEDIA_KINDS if name in found.given]
    for name in given:
        # A local file would be missing or different on another machine.
        if not found.text(name, most=60).startswith(EXAMPLE_PREFIX):
            raise found.field_error(name, "it must be a built-in one, as in example:scene-1")
    both = "prompt" in found.given and "messages" in found.given
    if both or not (given or "prompt" in found.given or "messages" in found.given):
        raise LessonError(
            "{where} needs a prompt or messages, not both. With a picture or a sound it needs "
            "neither.",
            where=found.where,
        )


def _parse_looks(found: FieldReader) -> tuple[LessonInfluence, ...]:
    values = found.value("looks", [])
    if not isinstance(values, list) or len(values) > _MAX_LOOKS:
        raise found.field_error(
            "looks", Message("it must be a list of {most} at most", most=_MAX_LOOKS)
        )
    looks = tuple(
        _parse_look(
            FieldReader(v, Message("{where}, look {n}", where=found.where, n=n), _LOOK_FIELDS)
        )
        for n, v in enumerate(values, 1)
    )
    named = [(look.step, look.name) for look in looks]
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise found.field_error(
            "looks", Message("two of step {step} are named {name}", step=twice[0], name=twice[1])
        )
    return looks


def _parse_look(given: FieldReader) -> LessonInfluence:
    method = given.one_of("method", METHODS, ATTENTION)
    name = given.text("name", method.replace("-", "_"), most=40)
    if not _LOOK_NAME.fullmatch(name):
        raise given.field_error("name", "it must be of small letters, digits and _")
    layer, head = (
        given.integer(n, 1, _MAX_PLACE) if n in given.given else None for n in ("layer", "head")
    )
    if method != ATTENTION and (layer or head):
        raise given.field_error(
            "layer" if layer else "head", Message("it is of {method} alone", method=ATTENTION)
        )
    return LessonInfluence(name, given.integer("step", 1, _MAX_STEP), method, layer, head)


def parse_card(
    number: int,
    title: str,
    given: FieldReader,
    texts: Mapping[str, str],
    runs: Mapping[str, LessonRun],
) -> Card:
    """Return a card.

    Args:
        number: from 1.
        title: heading of the card.
        given: fields of its YAML block.
        texts: heading of a section -> text; "" is the situation.
        runs: the runs of the lesson.
    """
    if not texts.get("Reveal"):
        raise LessonError(
            "{where} has no ## Reveal: what happened, in one or two sentences.", where=given.where
        )
    bet = given.value("bet")
    return Card(
        number=number,
        title=title,
        scenes=_parse_scenes(given, runs),
        hide=given.one_of("hide", HIDE_MODES, "future"),
        bet=None if bet is None else _parse_bet(bet, given.where),
        situation=texts.get("", ""),
        reveal=texts["Reveal"],
        why=texts.get("Why", ""),
        turn=texts.get("Turn it", ""),
        opens=_parse_open_action(given, runs),
        myth=given.text("myth", "", most=200),
        holds=given.texts("holds", _MAX_CLAIMS),
    )


def _parse_scenes(given: FieldReader, runs: Mapping[str, LessonRun]) -> tuple[Scene, ...]:
    names = given.texts("run", 3) or tuple(runs)[:1]
    unknown = next((name for name in names if name not in runs), None)
    if unknown is not None:
        raise LessonError(
            "{where}: there is no run {unknown}, but {runs}.",
            where=given.where,
            unknown=format_value(unknown),
            runs=", ".join(runs),
        )
    steps, untils = (_steps_per_scene(given, field, len(names)) for field in ("step", "until"))
    pictures = given.texts("picture", 4) if "picture" in given.given else ("candidates",)
    return tuple(
        _make_scene(name, step or 1, until, pictures)
        for name, step, until in zip(names, steps, untils, strict=True)
    )


def _make_scene(name: str, step: int, until: int | str | None, pictures: tuple[str, ...]) -> Scene:
    last = None if until == _END else step if until is None else int(until)
    return Scene(name, step, last, pictures)


def _steps_per_scene(given: FieldReader, name: str, scenes: int) -> list[Any]:
    """Return a step for each scene; a single value applies to all, None means not given."""
    value = given.value(name)
    listed = value if isinstance(value, list) else [value] * scenes
    # Not isinstance: YAML reads `yes` as True, which is an int in Python.
    fits = all(
        v is None or (name == "until" and v == _END) or (type(v) is int and 1 <= v <= _MAX_STEP)
        for v in listed
    )
    if len(listed) != scenes or not fits:
        template = (
            "it must be a step from 1 or “end”, or a list with one for each of the {scenes} runs"
            if name == "until"
            else "it must be a step from 1, or a list with one for each of the {scenes} runs"
        )
        raise given.field_error(name, Message(template, scenes=scenes))
    return listed


def _parse_bet(value: object, card: str) -> Bet:
    given = FieldReader(value, Message("{where}, bet", where=card), _BET_FIELDS)
    kind = given.one_of("kind", BET_KINDS)
    question = given.text("question", most=240)
    options = tuple(_parse_options(given, kind))
    bet = Bet(
        kind,
        question,
        options,
        answer=given.expression("answer"),
        among=given.integer("among", 0, MAX_OPTIONS, 0),
        low=given.number("from", 0.0),
        high=given.number("to", 100.0 if given.value("unit") == "percent" else 0.0),
        by=given.number("by", 1.0),
        tolerance=given.number("tolerance", 0.0),
        unit=given.one_of("unit", BET_UNITS, ""),
    )
    _check_bet(bet, given)
    return bet


def _parse_options(given: FieldReader, kind: str) -> Iterable[BetOption]:
    values = given.value("options", [])
    if not isinstance(values, list) or len(values) > MAX_OPTIONS:
        raise given.field_error(
            "options",
            Message("it must be a list of {most} at most", most=MAX_OPTIONS),
        )
    decides = {"choice": "if", "order": "value"}.get(kind)
    for number, value in enumerate(values, 1):
        where = Message("{where}, option {n}", where=given.where, n=number)
        if kind == "token":
            one = FieldReader({"text": value}, where, ["text"])
            yield BetOption(one.text("text", most=60))
            continue
        if decides is None:
            raise given.field_error("options", Message("a bet of kind {kind} has none", kind=kind))
        one = FieldReader(value, where, ["text", decides])
        when = one.expression(decides)
        if not when:
            raise one.field_error(decides, "it must be an expression")
        yield BetOption(one.text("text", most=200), when)


def _check_bet(bet: Bet, given: FieldReader) -> None:
    if bet.kind in ("choice", "order") and len(bet.options) < 2:
        raise given.field_error(
            "options",
            Message(
                "a bet of kind {kind} has 2 to {most}",
                kind=bet.kind,
                most=MAX_OPTIONS,
            ),
        )
    if bet.kind == "token" and len(bet.options) < 2 and bet.among < 2:
        raise given.field_error(
            "among", "a bet on a token offers 2 to 8 of them, by among or by options"
        )
    if bet.kind in ("number", "truth") and not bet.answer:
        raise given.field_error(
            "answer", Message("a bet of kind {kind} needs an expression", kind=bet.kind)
        )
    if bet.kind != "number":
        return
    if not bet.low < bet.high or bet.by <= 0 or (bet.high - bet.low) / bet.by > 10_000:
        raise given.field_error(
            "to", "from has to be below to, by above 0, with 10,000 stops at most"
        )
    if not 0 <= bet.tolerance < (bet.high - bet.low) / 2:
        raise given.field_error("tolerance", "it must be from 0 to less than half of the slider")


def _parse_open_action(given: FieldReader, runs: Mapping[str, LessonRun]) -> OpenAction | None:
    value = given.value("open")
    if value is None:
        return None
    found = FieldReader(value, Message("{where}, open", where=given.where), ["run", "params"])
    name = found.text("run", next(iter(runs)), most=40)
    if name not in runs:
        raise found.field_error("run", Message("the lesson has {runs}", runs=", ".join(runs)))
    params = found.value("params", {})
    if not isinstance(params, Mapping):
        raise found.field_error("params", "it must be names with values")
    return OpenAction(name, dict(params))
