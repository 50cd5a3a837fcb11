"""Every hostile grammar gets one sentence, the next run works, and one that is huge ends within its limits."""

from __future__ import annotations

import dataclasses
import json

import pytest

from engine import decode
from engine.declare.structured_outputs import MOST_CHARACTERS
from engine.errors import ParameterError
from engine.models import structured_outputs
from engine.models.structured_outputs import compile_structured_outputs
from engine.processors.grammar import FILTER
from engine.trace.events import Failed
from tests.helpers.grammars import CHOICE, ask
from tests.helpers.runs import failed, finished

PARAM = FILTER.params["structured_outputs"].metadata["param"]
UNUSABLE = [
    (5, "an object with exactly one of json"),
    ({}, "exactly one of json, regex, choice, grammar"),
    ({"regex": "a", "choice": ["a"]}, "exactly one of"),
    ({"regex": "a", "json_object": True}, "no field json_object"),
    ({"regex": "a", "whitespace_pattern": " "}, "whitespace_pattern goes with json only"),
    ({"regex": "("}, "unclosed group"),
    ({"regex": "(?=a)b"}, "look-around"),
    ({"regex": r"(a)\1"}, "cannot be"),
    ({"regex": r"[^\s\S]"}, "no text matches it"),
    ({"regex": "a*" * 12_000}, f"{MOST_CHARACTERS} are the most"),
    ({"choice": []}, "1 to 1000 texts"),
    ({"choice": ["a", 3]}, "an object with exactly one of"),
    ({"json": "{"}, "json must be a JSON schema"),
    ({"json": {"type": "strin"}}, "Invalid type"),
    ({"json": {"$ref": "http://127.0.0.1/schema"}}, "does not fetch"),
    ({"json": {"not": {"type": "null"}}}, "not"),
    ({"json": {"type": "array", "uniqueItems": True}}, "uniqueItems"),
    ({"json": {"type": "integer", "minimum": 3, "maximum": 1}}, "greater than maximum"),
    ({"json": False}, "schema is false"),
    ({"json": '{"items": ' * 4000 + "{}" + "}" * 4000}, "json must be a JSON schema"),
    ({"grammar": "start: missing"}, "missing"),
    ({"grammar": 'begin: "a"'}, "start"),
    ({"grammar": "start: start"}, "no text matches it"),
    ({"regex": "(" * 3000 + "a" + ")" * 3000}, ""),
    ({"json": {"enum": [str(i) for i in range(9000)]}}, f"{MOST_CHARACTERS} are the most"),
    ({"regex": "*a"}, "repetition operator missing"),
    ({"regex": "a{2,1}"}, "start must be <= the end"),
    ({"regex": "[z-a]"}, "class range"),
    ({"regex": "[a"}, "unclosed character class"),
    ({"regex": "a)"}, "unopened group"),
    ({"regex": "(?!a)b"}, "look-around"),
    ({"regex": "(?<=a)b"}, "look-around"),
    ({"regex": r"\k<n>"}, "escape sequence"),
    ({"regex": r"\p{Nope}"}, "property not found"),
    ({"regex": "a\ud800"}, "an object with exactly one of"),
    ({"choice": "yes"}, "1 to 1000 texts"),
    ({"choice": ["a"] * 1001}, "1 to 1000 texts"),
    ({"choice": ["x" * 30_000]}, f"{MOST_CHARACTERS} are the most"),
    ({"json": []}, "json must be a JSON schema"),
    ({"json": {"type": "object", "required": "a"}}, "Expected array"),
    ({"json": {"enum": []}}, "anyOf is empty"),
    ({"json": {"type": ["string", "nope"]}}, "Invalid type: nope"),
    ({"json": {"$ref": "#/nowhere"}}, "does not exist"),
    ({"json": {"$ref": "file:///etc/passwd"}}, "does not fetch"),
    ({"json": {"$ref": "#"}}, "no text matches it"),
    ({"json": {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}}, "no text matches it"),
    ({"json": {"if": {}, "then": {}}}, "Unimplemented keys"),
    ({"json": {"oneOf": [{"type": "integer"}, {"type": "number"}]}}, "oneOf"),
    ({"json": {"type": "string", "pattern": "("}}, "unclosed group"),
    ({"json": {"type": "string", "minLength": 5, "maxLength": 2}}, "greater than maxLength"),
    ({"json": {"type": "string", "format": "nope"}}, "Unknown format"),
    ({"json": {"type": "integer", "multipleOf": 0}}, "multiple"),
    ({"json": {"propertyNames": {"pattern": "a"}}}, "Unimplemented keys"),
    ({"json": {"type": "string"}, "whitespace_pattern": "("}, "unclosed group"),
    ({"grammar": "start"}, "line 1"),
    ({"grammar": "start: "}, "only the empty text"),
    ({"grammar": "start: A\nA: B\nB: A"}, "circular reference"),
    ({"grammar": 'start: "a"\nstart: "b"'}, "duplicate rule"),
    ({"grammar": "%import python.X\nstart: X"}, "Unknown common regex"),
    ({"grammar": 'start: %json {"type": "nope"}'}, "Invalid type: nope"),
    ({"grammar": "start: @other"}, "unknown grammar"),
    ({"grammar": "start: " + "(" * 3000 + '"a"' + ")" * 3000}, "too deeply nested"),
]
BY_DAY = 5
"""Hostile grammars that are tried in a run by day, evenly among all of them."""
HUGE = [
    {"regex": "a{99999}"},
    {"regex": "((a{1,100}){1,100}){1,100}b"},
    {"regex": "(x+x+)+y" * 500},
    {"json": {"type": "array", "minItems": 10**8, "maxItems": 10**9}},
    {"grammar": 'start: "a"{99999999}'},
    {"grammar": "start: " + " | ".join(f'"{i}" start' for i in range(900))},
]


def test_each_of_sixty_is_refused_in_one_sentence():
    assert len(UNUSABLE) >= 60
    for spec, part in UNUSABLE:
        with pytest.raises(ParameterError) as caught:
            compile_structured_outputs(PARAM.check("structured_outputs", spec))
        sentence = str(caught.value)
        assert part in sentence, sentence
        assert "structured_outputs" in sentence
        assert "\n" not in sentence


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(i, marks=() if i % (len(UNUSABLE) // BY_DAY) == 0 else pytest.mark.nightly)
        for i in range(len(UNUSABLE))
    ],
)
def test_the_run_after_a_refused_one_works(number):
    spec, part = UNUSABLE[number]
    error = failed(ask("greedy", spec))
    assert error.code == "parameter"
    assert part in str(error)
    assert finished(ask("greedy", CHOICE)).outputs[0].text in CHOICE["choice"]


@pytest.mark.parametrize(
    "spec", [HUGE[0], *(pytest.param(spec, marks=pytest.mark.nightly) for spec in HUGE[1:])]
)
def test_a_huge_one_ends_with_a_sentence_or_a_note(spec):
    *_, last = decode(ask("greedy", spec, max_new_tokens=5))
    sentences = [str(last.error)] if isinstance(last, Failed) else last.trace.notes
    assert any("structured_outputs" in sentence for sentence in sentences)
    assert not any("\n" in sentence for sentence in sentences)
    assert finished(ask("greedy", CHOICE)).outputs[0].text in CHOICE["choice"]


@pytest.mark.parametrize(
    ("public", "most"), [(True, "max_public_grammar_s"), (False, "max_template_s")]
)
def test_a_public_space_gives_a_grammar_less_time(monkeypatch, public, most):
    settings = dataclasses.replace(structured_outputs.SETTINGS, public=public)
    monkeypatch.setattr(structured_outputs, "SETTINGS", settings)
    given = []

    def compile_late(spec, limit_s):
        given.append(limit_s)
        raise TimeoutError

    monkeypatch.setattr(structured_outputs, "compile_grammar", compile_late)
    with pytest.raises(ParameterError, match="takes longer than"):
        compile_structured_outputs({"regex": f"only for {json.dumps(public)}"})
    assert given == [getattr(settings, most)]
    assert settings.max_public_grammar_s < settings.max_template_s
