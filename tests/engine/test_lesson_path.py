"""The path through the lessons, read from its file."""

from __future__ import annotations

import pytest

from engine.lessons.lesson import LessonError
from engine.lessons.path import load_path

WHOLE = """
title: {en: A path, de: Ein Weg}
minutes: 9
steps:
  - {lesson: first, minutes: 4, say: {en: We begin., de: Wir fangen an.}}
  - {lesson: second, minutes: 5, say: {en: We go on.}}
"""


def read(tmp_path, text, language="en"):
    file = tmp_path / "path.yaml"
    file.write_text(text, encoding="utf-8")
    return load_path(language, file)


def test_the_lessons_come_in_the_order_of_the_file(tmp_path):
    found = read(tmp_path, WHOLE)
    assert found.title == "A path"
    assert [(step.lesson, step.minutes, step.say) for step in found.steps] == [
        ("first", 4, "We begin."),
        ("second", 5, "We go on."),
    ]


def test_what_is_not_translated_is_reported_in_english(tmp_path):
    found = read(tmp_path, WHOLE, "de")
    assert (found.title, found.language) == ("Ein Weg", "de")
    assert [step.say for step in found.steps] == ["Wir fangen an.", "We go on."]


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("minutes: 9", "minutes: 10", "its lessons take 9 together"),
        ("lesson: second", "lesson: first", "has the lesson 'first' twice"),
        ("en: We go on.", "de: Weiter.", "for en at least"),
        ("minutes: 4", "minutes: 0", "step 1: minutes = 0 is not allowed"),
        ("lesson: first, ", "", "step 1: lesson = None is not allowed"),
        ("say: {en: We go on.}", "tell: x", "there is no 'tell'"),
        ("say: {en: We go on.}", "say: We go on.", "a text for every language"),
        (WHOLE[WHOLE.index("steps:") :], "steps: []", "a list of 1 to 60 lessons"),
        (WHOLE, "- a list", "names with values"),
        (WHOLE, "title: [", "is no YAML"),
    ],
)
def test_a_fault_of_the_file_is_named(tmp_path, old, new, told):
    with pytest.raises(LessonError, match="The path") as caught:
        read(tmp_path, WHOLE.replace(old, new))
    assert told in str(caught.value)


def test_a_missing_file_is_an_error_of_a_lesson(tmp_path):
    with pytest.raises(LessonError, match="cannot be read"):
        load_path("en", tmp_path / "none.yaml")


def test_the_shipped_path_takes_ninety_minutes_in_both_languages():
    english, german = load_path(), load_path("de")
    assert english.minutes == german.minutes == 90
    assert [step.lesson for step in english.steps] == [step.lesson for step in german.steps]
    pairs = zip(english.steps, german.steps, strict=True)
    assert all(one.say != other.say for one, other in pairs)
