"""Every message of a run is one that the schema describes: the page reads the same schema."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import jsonschema
import pytest
from referencing import Registry, Resource

from engine import DecodeRequest
from engine.models import loading
from engine.strategies import STRATEGIES
from engine.trace.json_io import step_to_dict
from playground.runs.stream import run_state
from tests.helpers.jobs import read_run
from tests.helpers.llama_server import Llama
from tests.helpers.models import golden_model
from tests.helpers.runs import finished
from tests.helpers.schemas import summaries_schema
from tests.helpers.strategies import make
from visualizers import summarize_trace

ROOT = Path(__file__).parents[2]
TRACE = Resource.from_contents(json.loads((ROOT / "docs" / "trace.schema.json").read_text()))
SUMMARIES = Resource.from_contents(summaries_schema())
REGISTRY = Registry().with_resources(
    [("../docs/trace.schema.json", TRACE), ("../visualizers/summaries.schema.json", SUMMARIES)]
)
SCHEMA = json.loads((ROOT / "playground" / "messages.schema.json").read_text())
MESSAGE = jsonschema.Draft202012Validator(SCHEMA, registry=REGISTRY)
KINDS = {
    name: definition["properties"]["kind"]["const"]
    for name, definition in SCHEMA["$defs"].items()
    if name.endswith("Message") and "properties" in definition
}


def sent(request, **options):
    return [json.loads(text) for text in read_run(request, **options)]


def check(message):
    """Check a message against the whole, then against its kind alone: that names the place."""
    (name,) = [name for name, kind in KINDS.items() if kind == message["kind"]]
    only = {"$ref": f"#/$defs/{name}", "$defs": SCHEMA["$defs"]}
    jsonschema.Draft202012Validator(only, registry=REGISTRY).validate(message)
    MESSAGE.validate(message)


def test_the_schema_is_one_and_every_kind_has_one_description():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert sorted(KINDS.values()) == ["delta", "fail", "finish", "progress", "start", "state"]


def test_a_run_on_a_server_sends_only_messages_of_the_schema():
    with Llama().serve() as server:
        model = f"endpoint:{server.base}#m"
        asked = DecodeRequest("sampling", model, "one two", params={"max_new_tokens": 3})
        messages = sent(asked)
    for message in messages:
        check(message)
    start, *_, finish = (message for message in messages if message["kind"] != "progress")
    assert (start["strategy"], start["form"]["model"]) == ("sampling", model)
    assert start["header"]["strategy"] == "endpoint"
    about = {"server": "llamacpp", "measured": True, "choice": "sampling"}
    assert start["header"]["served"].items() >= about.items()
    assert finish["rest"]["served"].items() >= {**about, "completion_tokens": 3}.items()
    steps = [shown for message in messages for shown in message.get("shown", ())]
    assert len(steps) == 3
    assert all({"served", "candidates", "formula", "sentence"} <= {*shown} for shown in steps)


@pytest.mark.by_day("greedy", "sampling", "prompt_lookup")
@pytest.mark.parametrize("name", list(STRATEGIES))
def test_a_run_sends_only_messages_of_the_schema(name):
    messages = sent(make(name))
    for message in messages:
        check(message)
    # What goes on meanwhile has no number: it is not part of the run.
    messages = [message for message in messages if message["kind"] != "progress"]
    kinds = [message["kind"] for message in messages]
    assert (kinds[0], kinds[-1]) == ("start", "finish")
    assert set(kinds[1:-1]) == {"delta"}
    assert [message["seq"] for message in messages] == list(range(len(messages)))
    state = json.loads(run_state(messages[0]["run"]))
    check(state)
    assert state["messages"] == messages


def test_what_is_measured_next_to_a_search_comes_with_its_end():
    whole = finished(make("beam_search"))
    messages = sent(make("beam_search"))
    steps = [step for m in messages if m["kind"] == "delta" for step in m["steps"]]
    last = messages[-1]["rest"]["last"]
    assert steps[-1]["detail"]["greedy"] is None
    assert last["step"]["detail"]["greedy"] == step_to_dict(whole.steps[-1])["detail"]["greedy"]
    assert last["step"]["detail"]["greedy"] is not None
    names = STRATEGIES["beam_search"].visuals
    assert last["shown"]["beam_tree"] == summarize_trace(whole, names)[-1]["beam_tree"]
    assert "last" not in sent(make("greedy"))[-1]["rest"]


def test_a_column_of_a_comparison_and_an_unknown_run():
    messages = sent(make("greedy"), key="compare-1-0")
    for message in messages:
        check(message)
        assert message.get("strategy", "compare-1-0") == "compare-1-0"
    assert (messages[0]["strategy"], messages[0]["link"]) == ("compare-1-0", "")
    check(json.loads(run_state("nobody's")))


@pytest.mark.parametrize("params", [{"max_new_tokens": -1}, {"no_such": 1}])
def test_a_refusal(params):
    request = DecodeRequest("greedy", golden_model("llama"), input_ids=[5, 9], params=params)
    (message,) = sent(request)
    check(message)
    assert message["kind"] == "fail"


def test_what_the_schema_does_not_name_is_refused():
    start = sent(make("greedy"))[0]
    for wrong in (
        {**start, "more": 1},
        {**start, "header": {**start["header"], "more": 1}},
        {**start, "kind": "begin"},
        {key: value for key, value in start.items() if key != "link"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            MESSAGE.validate(wrong)


def test_the_end_of_a_run_says_which_models_left_for_it(monkeypatch):
    """While it loads that is said, too, but too short to be read where a model loads fast."""
    monkeypatch.setattr(loading, "_CACHE", type(loading._CACHE)())
    one = dataclasses.replace(loading.SETTINGS, max_loaded_models=1)
    monkeypatch.setattr(loading, "SETTINGS", one)
    loading.load("storyteller")
    request = DecodeRequest("greedy", "foreign-draft", "Once", params={"max_new_tokens": 1})
    left = "Storyteller left memory to make room."
    for notes in ([left], []):
        messages = sent(request)
        for message in messages:
            check(message)
        assert messages[-1]["rest"]["notes"] == notes
