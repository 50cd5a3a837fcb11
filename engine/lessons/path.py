"""The path through the lessons: their order, their minutes and a sentence that introduces each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path as File

from engine.errors import format_value
from engine.lessons.fields import FieldReader
from engine.lessons.lesson import LessonError
from engine.lessons.lesson_parser import MAX_CHARS, parse_yaml
from engine.lessons.library import ENGLISH, FOLDER
from engine.messages import Message

PATH_FILE = FOLDER / "path.yaml"
_MAX_STEPS = 60
_MAX_TEXT_CHARS = 300


@dataclass(frozen=True)
class PathStop:
    """A lesson on the path."""

    lesson: str
    """Name of the lesson."""
    minutes: int
    say: str
    """One sentence that leads from the previous lesson to this one."""


@dataclass(frozen=True)
class LessonPath:
    """Lessons in an order in which each builds on earlier ones only."""

    language: str
    title: str
    minutes: int
    """Total minutes of all stops."""
    steps: tuple[PathStop, ...]


def load_path(language: str = ENGLISH, file: File = PATH_FILE) -> LessonPath:
    """Load the path in a language; texts without a translation are in English.

    Args:
        language: two letters.
        file: YAML file with ``title``, ``minutes`` and ``steps`` of ``lesson``, ``minutes`` and
            ``say``; ``title`` and ``say`` have a text for each language.

    Raises:
        LessonError: the file is invalid; the sentence names the missing or forbidden field.
    """
    try:
        text = file.read_bytes()[:MAX_CHARS].decode()
    except (OSError, UnicodeDecodeError):
        raise LessonError(
            "The path {name} cannot be read as text in UTF-8.", name=file.name[:60]
        ) from None
    given = FieldReader(parse_yaml(text, "The path"), "The path", ("title", "minutes", "steps"))
    listed = given.value("steps")
    if not isinstance(listed, list) or not 0 < len(listed) <= _MAX_STEPS:
        raise given.field_error(
            "steps",
            Message("it must be a list of 1 to {most} lessons", most=_MAX_STEPS),
        )
    steps = tuple(_parse_stop(number, value, language) for number, value in enumerate(listed, 1))
    names = [step.lesson for step in steps]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise LessonError("The path has the lesson {twice} twice.", twice=format_value(twice))
    minutes, together = given.integer("minutes", 1, 1000), sum(step.minutes for step in steps)
    if minutes != together:
        raise given.field_error(
            "minutes", Message("its lessons take {together} together", together=together)
        )
    return LessonPath(language, _text_in_language(given, "title", language), minutes, steps)


def _parse_stop(number: int, value: object, language: str) -> PathStop:
    given = FieldReader(
        value, Message("The path, step {number}", number=number), ("lesson", "minutes", "say")
    )
    return PathStop(
        given.text("lesson", most=40),
        given.integer("minutes", 1, 120),
        _text_in_language(given, "say", language),
    )


def _text_in_language(given: FieldReader, name: str, language: str) -> str:
    """Return a text in a language, or in English, which every text must have."""
    texts = given.value(name)
    if not isinstance(texts, Mapping) or ENGLISH not in texts:
        raise given.field_error(
            name,
            Message(
                "it must have a text for every language, for {english} at least", english=ENGLISH
            ),
        )
    inner = FieldReader(texts, f"{given.where}, {name}", (ENGLISH, *map(str, texts)))
    return inner.text(language if language in texts else ENGLISH, most=_MAX_TEXT_CHARS)
