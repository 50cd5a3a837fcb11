"""Heads and expressions that Python or PyYAML cannot compute: one sentence that names them."""

from __future__ import annotations

import re

import pytest

from engine.lessons.lesson import LessonError
from engine.lessons.lesson_parser import parse_lesson, parse_yaml
from engine.lessons.value_text import ValueWriter

BIG = "0x" + 280 * "f"
NAMES = {"r": {"steps": [{"p": 0.5}], "n": 3}}


@pytest.mark.parametrize(
    "expression",
    [
        f"{BIG} / 3",
        f"percent({BIG})",
        f"fixed({BIG}, 2)",
        f"{BIG} * 1.5",
        f"1.5 - {BIG}",
        f"percent({BIG} / 2)",
        f"fixed({BIG}.0e9)",
        "1e308 * 10",
        "percent(1e999)",
        "fixed(1e999 - 1e999, 2)",
        "1e999 / 1e999",
        "r[r]",
        "r[[1]]",
        "r[r.steps]",
        "r[1]",
        "r.steps[r]",
        "r.steps[0][r.steps]",
        "r.steps['p']",
        "-r",
        "r + 1",
        "r in r",
        "percent(r, r)",
        "1 / 0",
        "'a' < 1",
        "~1",
        "r.steps[0:1]",
        "percent(*r)",
        "()",
        "\ud800",
        "1 if r else 2",
    ],
)
def test_what_cannot_be_computed_is_named(expression):
    with pytest.raises(LessonError) as found:
        ValueWriter(NAMES, "en").text(expression)
    said = str(found.value)
    assert re.match(r"“.{1,80}”(: .+| .+)\.$", said), said
    assert len(said) < 300


@pytest.mark.parametrize(
    "value",
    [
        "!!int ''",
        "!!float ''",
        "!!bool maybe",
        "!!timestamp x",
        "!!timestamp 2020-13-45",
        "!!int abc",
        "!!float abc",
        "!!int 0b2",
        "!!int '-'",
        "!!bool ''",
        "!!int 1:x",
        "9" * 5000,
    ],
)
def test_a_head_whose_value_its_type_does_not_have_is_refused_by_name(value):
    with pytest.raises(LessonError) as found:
        parse_yaml(f"title: Tea\nminutes: {value}", "The head")
    said = str(found.value)
    assert said.startswith("The head is no YAML, in its line 2: minutes has the value ")
    assert len(said) < 250


@pytest.mark.parametrize("name", ["minutes", "title", "for", "language", "runs"])
def test_a_number_of_thousands_of_digits_is_no_value_of_any_field(name):
    head = {"title": "T", "for": "x", "minutes": "5", "language": "en", "runs": "{}"}
    lines = "\n".join(f"{n}: {v}" for n, v in (head | {name: "0x" + "f" * 9000}).items())
    with pytest.raises(LessonError) as found:
        parse_lesson(f"---\n{lines}\n---\n# A card\n```card\nrun: a\n```\n", "tea")
    assert len(str(found.value)) < 300
