"""Malformed traces and settings are refused with one sentence before anything is drawn or written."""

from __future__ import annotations

import copy
import json
from types import SimpleNamespace

import gradio as gr
import pytest

from engine import DecodeRequest, load
from engine.errors import EngineError
from engine.strategies import STRATEGIES
from engine.trace import json_io
from playground import configs, export
from playground.tab import build_tab
from tests.helpers.bad_configs import REFUSED
from tests.helpers.bad_traces import CHANGES
from tests.helpers.blocks import built
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
        monkeypatch.setitem(VISUALS, name, SimpleNamespace(view=forbidden))
    monkeypatch.setattr(export, "export_files", forbidden)
    monkeypatch.setattr(export, "verify", forbidden)


def sentence_of(action, trace):
    event = SimpleNamespace(_data={"id": 4, "action": action, "trace": trace})
    answer = json.loads(export._answer(event))
    assert answer["id"] == 4
    assert set(answer) == {"id", "error"}, answer
    return clean(answer["error"])


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
    assert "no such export" in sentence_of("eval", data)
    event = SimpleNamespace(_data="x")
    assert json.loads(export._answer(event))["id"] == 0
    # The model was given as an object: there is nowhere to load it from.
    assert "no place to load" in sentence_of("files", data)
    changed = {**data, "strategy": "evil"}
    assert "no strategy" in sentence_of("files", changed)
    changed = {**data, "model": {**data["model"], "id": "storyteller", "dtype": "os.system('x')"}}
    assert "dtype" in sentence_of("files", changed)
    changed = {**data, "config": {**data["config"], "top_k": -1}}
    assert "top_k" in sentence_of("files", changed)


@pytest.fixture(scope="module")
def tab():
    return built(lambda: build_tab(STRATEGIES["sampling"], gr.HTML("")))


def values_of(tab, **params):
    return tab.updates(DecodeRequest("sampling", "storyteller", "Hello", params=params, seed=3))


def test_settings_are_written_read_and_shown(tab):
    answer, updates = configs.act(tab, {"action": "write"}, values_of(tab, temperature=0.5))
    assert updates is None
    assert answer["params"] == {"temperature": 0.5}
    assert json.loads(answer["text"])["do_sample"] is True
    asked = {"action": "read", "text": answer["text"]}
    answer, updates = configs.act(tab, asked, values_of(tab, top_p=0.2))
    assert updates == values_of(tab, temperature=0.5)
    assert answer == {"left_out": [], "params": {"temperature": 0.5}}
    load("storyteller")
    answer, _ = configs.act(tab, {"action": "defaults"}, values_of(tab))
    assert answer == {"model": "storyteller", "defaults": {}}


@pytest.mark.parametrize("asked", [{"action": "read", "text": 5}, {"action": "evil"}, {}], ids=str)
def test_questions_about_settings_that_make_no_sense(tab, asked):
    with pytest.raises(EngineError) as caught:
        configs.act(tab, asked, values_of(tab))
    clean(str(caught.value))


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_malformed_settings_change_no_control(tab, monkeypatch, number):
    given, said = REFUSED[number]
    data = given if isinstance(given, bytes) else json.dumps({"do_sample": True, **given}).encode()
    text = data.decode("utf-8", "replace")
    values = values_of(tab)
    monkeypatch.setattr(type(tab), "updates", lambda *_: pytest.fail("a control was changed"))
    with pytest.raises(EngineError) as caught:
        configs.act(tab, {"action": "read", "text": text}, values)
    sentence = clean(str(caught.value), most=400)
    # A page sends text: bytes that are none say something else.
    assert said in sentence or text.encode() != data
