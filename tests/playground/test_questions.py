"""Malformed traces and settings are refused with one sentence before anything is drawn or written."""

from __future__ import annotations

import copy
import dataclasses
import json
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest

from engine import DecodeRequest, load
from engine.declare.params import defaults_of, params_of
from engine.errors import EngineError
from engine.strategies import STRATEGIES
from engine.trace import json_io
from playground.forms.form import form_request
from playground.forms.links import preset_form, to_link
from playground.forms.spec import control_values
from playground.inspect import generation_config, questions
from playground.tabs import fork
from tests.helpers.bad_configs import REFUSED
from tests.helpers.bad_traces import CHANGES
from tests.helpers.models import golden_model
from tests.helpers.runs import finished
from tests.helpers.sentences import clean
from visualizers import VISUALS


@pytest.fixture(scope="module")
def data():
    request = DecodeRequest(
        "sampling", golden_model("llama"), input_ids=[5, 9], params={"max_new_tokens": 6}
    )
    return json_io.trace_to_dict(finished(request))


@pytest.fixture
def closed(monkeypatch):
    """Nothing may draw or write code."""

    def forbidden(*args, **kwargs):
        pytest.fail("a refused trace was drawn or exported")

    for name in VISUALS:
        monkeypatch.setitem(VISUALS, name, SimpleNamespace(fold=forbidden))
    monkeypatch.setattr(questions, "export_files", forbidden)
    monkeypatch.setattr(questions, "verify_export", forbidden)


def sentence_of(action, trace):
    event = SimpleNamespace(_data={"id": 4, "action": action, "trace": trace})
    answer = json.loads(questions._handle_event(event))
    assert answer["id"] == 4
    assert set(answer) - {"templates"} == {"id", "error"}, answer
    return clean(answer["error"])


@pytest.mark.by_day(3)
@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_malformed_trace_is_refused_before_anything_is_drawn(closed, data, number):
    change, said = CHANGES[number]
    bad = copy.deepcopy(data)
    change(bad)
    with pytest.raises(EngineError) as caught:
        json_io.loads(json.dumps(bad))
    assert said in str(caught.value)
    assert sentence_of("files", bad) == sentence_of("verify", bad) == str(caught.value)


def test_questions_that_make_no_sense(data):
    for trace in (None, [], "x", 5, {"a": float("nan")}):
        sentence_of("files", trace)
    assert "no such question" in sentence_of("eval", data)
    event = SimpleNamespace(_data="x")
    assert json.loads(questions._handle_event(event))["id"] == 0
    # The model was given as an object: there is nowhere to load it from.
    assert "no place to load" in sentence_of("files", data)
    changed = {**data, "strategy": "evil"}
    assert "no strategy" in sentence_of("files", changed)
    changed = {**data, "model": {**data["model"], "id": "storyteller", "dtype": "os.system('x')"}}
    assert "dtype" in sentence_of("files", changed)
    changed = {**data, "config": {**data["config"], "top_k": -1}}
    assert "top_k" in sentence_of("files", changed)


def form(**params):
    return {
        "strategy": "sampling",
        "model": "storyteller",
        "params": control_values(STRATEGIES["sampling"], params),
    }


def test_settings_are_written_read_and_shown():
    answer = generation_config.act({**form(temperature=0.5), "action": "write"})
    assert answer["params"] == {"temperature": 0.5}
    assert json.loads(answer["text"])["do_sample"] is True
    answer = generation_config.act({**form(top_p=0.2), "action": "read", "text": answer["text"]})
    assert answer == {
        "strategy": "sampling",
        "left_out": [],
        "params": {"temperature": 0.5},
        "values": form(temperature=0.5)["params"],
    }
    load("storyteller")
    answer = generation_config.act({**form(), "action": "defaults"})
    assert answer == {"model": "storyteller", "differs": [], "same": 0, "left_out": []}


@pytest.mark.parametrize(
    "asked",
    [
        {"action": "read", "text": 5},
        {"action": "evil"},
        {},
        {"action": "write", "params": 5},
        {"action": "write", "params": {"temperature": "hot"}},
        {"action": "write", "strategy": []},
    ],
    ids=str,
)
def test_questions_about_settings_that_make_no_sense(asked):
    with pytest.raises(EngineError) as caught:
        generation_config.act({**form(), **asked})
    clean(str(caught.value))


RUN_CODE = {"custom_generate", "trust_remote_code", "auto_map", "__class__", "__proto__"}


def answer_or_error(asked):
    """Return (answer, "") or (None, sentence)."""
    try:
        return generation_config.act(asked), ""
    except EngineError as error:
        return None, clean(str(error), most=400)


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_a_malformed_setting_is_named_and_not_used(number):
    given, said = REFUSED[number]
    data = given if isinstance(given, bytes) else json.dumps({"do_sample": True, **given}).encode()
    text = data.decode("utf-8", "replace")
    answer, error = answer_or_error({**form(), "action": "read", "text": text})
    if answer is None:
        # What is no JSON may be read as Python, which says something else.
        assert said in error or isinstance(given, bytes)
        return
    assert not isinstance(given, bytes)
    assert not {*given} & RUN_CODE
    # Settings of another strategy are used in its tab.
    if answer["strategy"] == "sampling":
        assert any(said in clean(one, most=400) for one in answer["left_out"])
        assert {*answer["params"]} < {*given}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_link_fills_the_form_that_made_it(name):
    strategy = STRATEGIES[name]
    preset = strategy.presets[0]
    made = DecodeRequest(name, None, preset.prompt, params=preset.params, seed=2**63 - 1)
    opened = questions.answer_question({"action": "link", "search": to_link(made) + "&step=3"})
    assert (opened["tab"], opened["step"]) == (name, 3)
    found = opened["form"]
    assert found["values"] == control_values(strategy, preset.params)
    assert found["seed"] == str(2**63 - 1)
    again = form_request({**found, "params": found["values"]})
    assert again.seed == made.seed
    assert again.model == strategy.default_model
    assert again.prompt == preset.prompt
    kinds = params_of(strategy.config)
    assert {n: kinds[n].check(n, v) for n, v in again.params.items()} == {
        n: kinds[n].check(n, v)
        for n, v in preset.params.items()
        if kinds[n].check(n, v) != defaults_of(strategy.config)[n]
    }


def test_a_link_of_what_was_pressed_reads_a_form_and_runs_it_again():
    values = control_values(STRATEGIES["sampling"], {}) | {"eos_token_id": "2, 7"}
    asked = {"strategy": "sampling", "prompt": "Once", "params": json.dumps(values), "pressed": 1}
    opened = questions.answer_question({"action": "link", "search": "?" + urlencode(asked)})
    assert opened["form"]["values"] == values | {"eos_token_id": "[2, 7]"}
    preset = STRATEGIES["sampling"].presets[0]
    form = preset_form("sampling", preset)
    fields = {name: value for name, value in form.items() if value is not None}
    search = "?" + urlencode({**fields, "params": json.dumps(form["values"])})
    opened = questions.answer_question({"action": "link", "search": search})
    assert opened["recorded"] == "sampling-1"
    opened = questions.answer_question({"action": "link", "search": search + "&pressed=1"})
    assert opened["form"] == form


@pytest.mark.by_day("early_exit", "mtp", "masked_diffusion")
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_link_to_a_recorded_request_opens_the_recorded_run(name):
    preset = STRATEGIES[name].presets[0]
    made = DecodeRequest(name, preset.model, preset.prompt, params=preset.params, seed=preset.seed)
    opened = questions.answer_question({"action": "link", "search": to_link(made)})
    assert opened == {"tab": name, "step": preset.look_at, "recorded": f"{name}-1"}
    opened = questions.answer_question({"action": "link", "search": f"?trace={name}-1&step=2"})
    assert opened == {"tab": name, "step": 2, "recorded": f"{name}-1"}
    opened = questions.answer_question({"action": "link", "search": f"?tab=replay&trace={name}-2"})
    assert (opened["tab"], opened["recorded"]) == ("replay", f"{name}-2")
    assert (
        questions.answer_question({"action": "link", "search": f"?tab={name}"})["recorded"] is None
    )


@pytest.mark.parametrize(
    ("search", "reason"),
    [
        (
            "trace=greddy-2",
            "trace = 'greddy-2' is not allowed: it must be the name of a recording, such as greedy-2.",
        ),
        ("tab=lessons&lesson=x", "lesson = 'x' is not allowed: it must be one of alignment, "),
        ("strategy=greedy&seed=x", "seed = 'x' is not allowed: it must be a whole number from 0 "),
    ],
)
def test_a_bad_link_is_answered_with_its_parameter_its_value_and_what_is_allowed(search, reason):
    with pytest.raises(EngineError) as caught:
        questions.answer_question({"action": "link", "search": search})
    assert str(caught.value).startswith(f"This link cannot be opened, because {reason}")


@pytest.mark.parametrize("put", [{"token_id": 270}, {"text": " and the dragon"}])
def test_a_branch_is_made_again_by_its_link(put):
    asked = {
        "strategy": "sampling",
        "model": "storyteller",
        "prompt_ids": [488, 492, 259],
        "kept_ids": [416, 12],
        "step": 2,
        "run_id": "r1",
        "end_ids": [],
        "linked": True,
        "seed": 5,
        "params": control_values(STRATEGIES["sampling"], {"temperature": 0.5}),
        **put,
    }
    first = fork.read_request(asked)
    opened = questions.answer_question({"action": "link", "search": to_link(first) + "&step=4"})
    form, branch = opened["form"], opened["branch"]
    assert (opened["tab"], opened["step"], form["prompt"]) == ("sampling", 4, None)
    again = fork.read_request(
        {"run_id": "", "end_ids": [], "linked": True, **branch, **form, "params": form["values"]}
    )
    assert again.input_ids == first.input_ids
    assert (again.params, again.seed, again.model) == (first.params, 5, "storyteller")
    assert dataclasses.replace(again.parent, run_id="r1") == first.parent


def test_a_link_fills_a_comparison_many_draws_and_the_bench():
    column = {"strategy": "sampling", "model": "storyteller", "params": {"temperature": 0.4}}
    form = {"prompt": "The cat", "seed": 3, "base": "storyteller", "columns": [column, column]}
    opened = questions.answer_question({"action": "link", "search": formed("compare", form)})
    assert (opened["tab"], opened["form"]["prompt"], opened["form"]["seed"]) == (
        "compare",
        "The cat",
        "3",
    )
    assert [c["values"]["temperature"] for c in opened["form"]["columns"]] == [0.4, 0.4]
    form = {"prompt": "The cat", "seed": 3, "draws": 16, "params": {"max_new_tokens": 4}}
    opened = questions.answer_question({"action": "link", "search": formed("draws", form)})["form"]
    assert (opened["draws"], opened["values"]["max_new_tokens"]) == (16, 4)
    form = {"prompt": "The cat", "text": "A <b>text</b>", "params": {"bias": 4, "device": "cpu"}}
    opened = questions.answer_question(
        {"action": "link", "search": formed("watermark_bench", form)}
    )["form"]
    assert (opened["text"], opened["values"]["bias"]) == ("A <b>text</b>", 4)


def formed(tab, form):
    return "?" + urlencode({"tab": tab, "form": json.dumps(form)})


BAD = [
    "?strategy=nope",
    "",
    "?strategy=greedy&seed=x",
    "?trace=nope",
    "?trace=../index",
    "?trace=greedy-1&step=0",
    "?trace=greedy-1&step=61",
    "?strategy=greedy&step=-1",
    "?strategy=greedy&step=%C2%B2",
    "?tab=nope",
    "?strategy=greedy&ids=1.x&put=3",
    "?strategy=greedy&ids=1.2&put=",
    "?strategy=greedy&ids=1.2&put=3.4",
    "?tab=compare&form=x",
    "?tab=compare&form=[]",
    "?tab=compare&form={}",
    formed("compare", {"prompt": "a", "columns": [3]}),
    formed("compare", {"prompt": "a", "columns": [{"strategy": "nope"}]}),
    formed("draws", {"prompt": "a", "params": {"temperature": "hot"}}),
    formed("draws", {"prompt": "a" * 9000, "params": {}}),
    formed("draws", {"prompt": "a", "params": [1]}),
    formed("watermark_bench", {"prompt": "a", "seed": "-1"}),
]


@pytest.mark.parametrize("search", BAD)
def test_a_link_that_cannot_be_read_says_so(search):
    event = SimpleNamespace(_data={"id": 1, "action": "link", "search": search})
    clean(json.loads(questions._handle_event(event))["error"])
