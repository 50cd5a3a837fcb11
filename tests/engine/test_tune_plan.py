"""What a plan of a table may say, and that bad input is one sentence."""

from __future__ import annotations

import json

import pytest

from engine import read_plan
from engine.analysis.tune.answer_checks import AnswerChecks
from engine.analysis.tune.read_plan import decode_text, load_plan, read_grid, read_prompts
from engine.errors import EngineError
from engine.settings import SETTINGS
from tests.helpers.tune_plans import PLAN

BAD = [
    ({"prompts": []}, "There is no prompt"),
    ({"prompts": "\n\n"}, "There is no prompt"),
    ({"prompts": ["a"] * 10_000}, "There are 10000 prompts, and a table takes 50."),
    ({"prompts": [3]}, "The prompt 1 must be an object"),
    ({"prompts": [{"text": "a"}]}, "prompt 1 = 'text' is not allowed"),
    ({"prompts": [{"reference": "a"}]}, "Prompt 1 needs either a prompt or messages."),
    ({"prompts": ["a", "b" * 9000]}, "Prompt 2: "),
    ({"settings": []}, "There is no setting"),
    ({"settings": [{"strategy": "nothing"}]}, "Setting 1: strategy = 'nothing'"),
    ({"settings": [{"strategy": "greedy", "params": {"temperatur": 1}}]}, "Setting 1: "),
    ({"settings": [{"strategy": "sampling", "grid": "temperature"}]}, "grid = 'temperature'"),
    (
        {"settings": [{"strategy": "sampling", "grid": {"seed_a": [], "temperature": [1]}}]},
        "seed_a = []",
    ),
    (
        {"settings": [{"strategy": "sampling", "grid": {"top_k": list(range(1, 40))}}]},
        "more than 24",
    ),
    (
        {"settings": [{"strategy": "sampling", "params": {"num_return_sequences": 2}}]},
        "gives 1 text",
    ),
    ({"seeds": 11}, "seeds = 11 is not allowed: a table takes 1 to 10."),
    ({"seeds": [1, 1]}, "each seed may be there once"),
    ({"seeds": ["a"]}, "seed = 'a'"),
    ({"measures": ["speed"]}, "measures = 'speed' is not allowed"),
    ({"pattern": "("}, "pattern = '(' is not allowed"),
    ({"schema": "{"}, "The schema is not valid JSON."),
    ({"schema": {"type": "objekt"}}, "The schema is not valid: 'objekt'"),
    ({"schema": {"$ref": "https://example.com/a"}}, "The schema cannot be used"),
    ({"match": "near"}, "match = 'near'"),
    ({"match": "regex", "prompts": [{"prompt": "a", "reference": "("}]}, "reference = '('"),
    ({"colour": "red"}, "plan = 'colour' is not allowed"),
]


@pytest.mark.parametrize(("change", "says"), BAD)
def test_bad_input_is_one_sentence(change, says):
    with pytest.raises(EngineError) as caught:
        read_plan({**PLAN, **change})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_are_not_text_or_not_there(tmp_path):
    for data in (b"\xff\xfe\x00a", b"a\0b"):
        with pytest.raises(EngineError, match="not text"):
            decode_text(data)
    (tmp_path / "a.yaml").write_text("a: [")
    with pytest.raises(EngineError, match="not valid YAML at line 1"):
        load_plan(tmp_path / "a.yaml")
    with pytest.raises(EngineError, match="cannot be read"):
        load_plan(tmp_path / "b.yaml")


def test_a_public_playground_limits_the_runs_of_a_table(monkeypatch):
    many = {**PLAN, "prompts": [f"Prompt {n}" for n in range(50)]}
    assert len(read_plan(many).cells) == 300
    monkeypatch.setattr("engine.analysis.tune.plan.SETTINGS", _public())
    with pytest.raises(EngineError, match="has 300 runs, and a public playground allows 200"):
        read_plan(many)


def _public():
    from dataclasses import replace

    return replace(SETTINGS, public=True)


def test_prompts_are_lines_or_objects_a_line():
    text = '\ufeffOne\n\n{"prompt": "Two", "reference": "2"}\n{"messages": [{"role": "user", "content": "3"}]}\n{not'
    found = read_prompts(decode_text(text.encode()))
    assert [one.label for one in found] == ["One", "Two", "3", "{not"]
    assert found[1].reference == "2"


def test_a_grid_has_every_combination():
    assert read_grid("temperature = 0.5, 1\nuse = true, x") == {
        "temperature": [0.5, 1],
        "use": [True, "x"],
    }
    plan = read_plan(
        {
            **PLAN,
            "settings": [{"strategy": "sampling", "grid": {"top_k": [1, 2], "top_p": [0.5, 0.9]}}],
        }
    )
    assert [dict(one.params) for one in plan.settings] == [
        {"top_k": k, "top_p": p} for k in (1, 2) for p in (0.5, 0.9)
    ]
    assert plan.names[0] == "Sampling, top-k 1, top-p 0.5"


def test_answers_are_checked():
    checks = AnswerChecks("b+c", {"type": "object", "required": ["a"]}, "exact")
    assert [checks.has_pattern(text) for text in ("abbc", "acb")] == [1.0, 0.0]
    assert [checks.fits_schema(t) for t in ('{"a": 1}', "{}", '{"a": 1} ', "a")] == [
        1.0,
        0.0,
        1.0,
        0.0,
    ]
    assert [checks.equals_reference(t, "Paris") for t in (" paris\n", "Paris.")] == [1.0, 0.0]
    assert AnswerChecks().equals_reference("In Paris.", "paris") == 1.0
    assert AnswerChecks(match="regex").equals_reference("In Paris.", "^In P") == 1.0
    assert AnswerChecks().has_pattern("a") is AnswerChecks().fits_schema("1") is None


def test_hostile_patterns_and_schemas_end(monkeypatch):
    monkeypatch.setattr("engine.analysis.tune.answer_checks._SEARCH_S", 0.05)
    slow, text = r"(x+x+)+(?<!x)y", "x" * 5000
    assert AnswerChecks(slow).has_pattern(text) is None
    schema = {"type": "string", "pattern": slow}
    assert AnswerChecks(schema=schema).fits_schema(json.dumps(text)) is None
    names = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    endless = {"$ref": "#/$defs/d0", "$defs": {**names, "d40": {}}}
    assert AnswerChecks(schema=endless).fits_schema("1") is None


def test_a_reference_to_an_address_is_not_fetched(monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: pytest.fail("fetched"))
    with pytest.raises(EngineError):
        AnswerChecks(schema={"$ref": "https://example.com/a"}).check()
