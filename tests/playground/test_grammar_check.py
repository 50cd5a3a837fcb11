"""A grammar is checked while it is typed: one sentence with its line, and one check at a time."""

from __future__ import annotations

import json
import threading

import pytest

from engine.errors import Cancelled, ParameterError
from playground.inspect import grammar_check
from playground.inspect.grammar_check import act
from playground.inspect.questions import answer_question
from tests.helpers.grammars import BALL, CHOICE, COUNT, TOY


@pytest.mark.parametrize(
    ("spec", "begins"),
    [(BALL, "a space"), (CHOICE, "a space"), (COUNT, "a space"), ({"json": TOY}, "“{”")],
)
def test_a_grammar_that_can_be_used_says_how_a_text_begins(spec, begins):
    assert answer_question({"action": "grammar", "text": json.dumps(spec)}) == {"begins": begins}


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ('{\n "regex": a}', ["Line 2", "JSON"]),
        ('{"regex": "("}', ["unclosed group"]),
        ('{"regexp": "a"}', ["no field regexp"]),
        (json.dumps({"grammar": 'start: a\na: "x" b\nb: missing'}), ["line 3", "missing"]),
        (json.dumps({"grammar": 'start: "a'}), ["line 1", "lexer error"]),
        ("[" * 30_000, ["JSON", "nest"]),
        ("7", ["an object with exactly one of"]),
    ],
)
def test_one_that_cannot_names_the_line_and_the_reason(text, parts):
    refused = act({"text": text})["refused"]
    assert (
        any(part in refused for part in parts)
        if text[0] == "["
        else all(part in refused for part in parts)
    )
    assert "\n" not in refused


@pytest.mark.parametrize("text", [None, 7, "a" * 50_000])
def test_what_is_no_text_or_too_long_is_refused(text):
    with pytest.raises(ParameterError):
        act({"text": text})


def test_a_newer_text_replaces_the_check_of_the_one_before(monkeypatch):
    """Typing never has more than one check at work, however many keys are pressed."""
    at_work, go = threading.Event(), threading.Event()
    compiled: list[str] = []

    def compile_slowly(spec):
        compiled.append(spec["regex"])
        at_work.set()
        go.wait(60)
        return "start: /a/"

    monkeypatch.setattr(grammar_check, "compile_structured_outputs", compile_slowly)
    ends: dict[str, object] = {}

    def ask(pattern):
        try:
            ends[pattern] = act({"text": json.dumps({"regex": pattern}), "press": "field"})
        except Cancelled as error:
            ends[pattern] = error

    def begin(pattern):
        thread = threading.Thread(target=ask, args=(pattern,))
        thread.start()
        return thread

    first = begin("a")
    assert at_work.wait(60)
    waiting = begin("b")
    last = begin("c")
    waiting.join(60)
    go.set()
    for thread in (first, last):
        thread.join(60)
    assert isinstance(ends["b"], Cancelled) or isinstance(ends["c"], Cancelled)
    assert len(compiled) == 2
