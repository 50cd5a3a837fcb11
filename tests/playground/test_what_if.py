"""What the page is told of a step under other settings."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import pytest

from engine import DecodeRequest, decode
from engine.declare.params import params_of
from engine.errors import Cancelled
from engine.inspection.logits_cache import LOGITS_CACHE
from engine.inspection.step_logits import find_logits
from engine.inspection.trace_logits import run_from_trace
from engine.inspection.what_if import SettingsChange, apply_change, scan_run
from engine.strategies import STRATEGIES
from engine.trace import json_io
from playground.forms.form import form_request
from playground.forms.spec import page_spec
from playground.inspect import questions, what_if
from tests.helpers.models import golden_model
from tests.helpers.patience import wait_for
from tests.helpers.runs import finished, parts_at
from tests.helpers.sentences import clean

STORY = "The dragon opened the door and"


def asked(**values):
    event = SimpleNamespace(_data={"id": 7, "action": "what_if", "step": 3, **values})
    answer = json.loads(questions._handle_event(event))
    assert answer.pop("id") == 7
    return answer


@pytest.fixture(scope="module")
def run():
    """A run that the page made, and its trace."""
    request = DecodeRequest("sampling", prompt=STORY, params={"max_new_tokens": 12}, seed=5)
    made = decode(request, LOGITS_CACHE.start_writer)
    return made.run_id, list(made)[-1].trace


def slim(trace, step):
    """Return what the page sends of a run that the server does not remember."""
    data = json_io.trace_to_dict(trace)
    for one in data["steps"]:
        one.pop("detail", None)
        one.pop("stages", None)
        if one["index"] != step:
            one.pop("candidates", None)
    return {**data, "outputs": []}


def test_a_step_and_the_first_change_and_the_run_that_is_made_of_it(run):
    run_id, trace = run
    change = {"params": {"temperature": 1.9, "top_k": 50}}
    told = asked(run=run_id, **change)
    assert told["changed"] == ["temperature"]
    assert told["source"] == "kept"
    assert {str(o["id"]) for o in told["options"]} <= set(told["pieces"])
    assert [s["name"] for s in told["stages"]] == ["Temperature", "TopK"]
    first = asked(run=run_id, action="what_if_first", **change)["first"]
    form = {"strategy": "sampling", "prompt": STORY, "seed": 5, "params": told["values"]}
    again = finished(form_request(form))
    parts = parts_at([trace, again])
    assert parts == first["step"]
    assert again.steps[parts].emit == (first["token"],)
    assert trace.steps[parts].emit == (first["recorded"],)


def test_a_run_that_is_not_remembered_is_sent_along(run):
    _, trace = run
    assert set(asked(run="nobody")) == {"forgotten"}
    told = asked(trace=slim(trace, 3))
    assert told["source"] == "recomputed"
    assert told["token"] == trace.steps[3].emit[0]
    first = asked(trace=slim(trace, 3), action="what_if_first", params={"temperature": 1.9})
    run = run_from_trace(trace)
    assert (
        first["first"]["step"]
        == scan_run(run, apply_change(run, SettingsChange({"temperature": 1.9}))).first.step
    )


def test_a_run_whose_model_is_not_there_is_its_recorded_candidates():
    request = DecodeRequest(
        "sampling", golden_model("llama"), input_ids=[5, 9], params={"max_new_tokens": 8}
    )
    trace = finished(request)
    told = asked(trace=slim(trace, 3))
    assert told["source"] == "recorded"
    assert told["token"] == trace.steps[3].emit[0]
    first = asked(trace=slim(trace, 3), action="what_if_first", params={"temperature": 1.5})
    assert "not known without the model" in clean(first["error"])


def test_switched_off_and_reordered(run):
    run_id, _ = run
    told = asked(run=run_id, params={"top_p": 0.8}, off=["TopK"])
    assert [(s["name"], s["on"]) for s in told["stages"]] == [("TopK", False), ("TopP", True)]
    assert (told["values"]["top_k"], told["values"]["top_p"]) == (0, 0.8)
    swapped = asked(run=run_id, params={"top_p": 0.8}, order=["TopP", "TopK"])
    assert [s["name"] for s in swapped["stages"]] == ["TopP", "TopK"]
    assert swapped["values"] is None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"step": 12}, "step = 12 is not allowed: the run has steps 0 to 11"),
        ({"step": "3"}, "step = '3' is not allowed"),
        (
            {"params": {"temperature": "hot"}},
            "temperature = 'hot' is not allowed: it must be a number",
        ),
        ({"params": {"temperature": -2}}, "at least 0.001 and at most 100"),
        ({"params": [1]}, "params = [1] is not allowed"),
        ({"params": {"max_new_tokens": 5}}, "it cannot be asked about without running again"),
        ({"off": "TopK"}, "off = 'TopK' is not allowed"),
        ({"order": ["Magic"]}, "order = 'Magic' is not allowed: it must be one of"),
        ({"trace": {"schema": 1}}, "schema"),
        ({"trace": "text"}, "trace"),
    ],
    ids=str,
)
def test_bad_questions_get_one_sentence(run, values, said):
    told = asked(run=run[0], **values)
    assert set(told) - {"templates"} == {"error"}
    assert said in clean(told["error"])


def test_a_visitor_who_asks_again_gives_up_what_was_asked_before(run, monkeypatch):
    begun, events = threading.Event(), []

    def waiting(run, request, cancelled):
        begun.set()
        wait_for(cancelled)
        raise Cancelled

    monkeypatch.setattr(what_if, "scan_run", waiting)
    first = threading.Thread(
        target=lambda: events.append(asked(run=run[0], action="what_if_first", press="me"))
    )
    first.start()
    wait_for(begun)
    assert asked(run=run[0], press="somebody else")["token"]
    assert not events
    assert asked(run=run[0], press="me")["token"]
    first.join()
    assert events == [{"superseded": True}]


def test_every_strategy_offers_controls_or_says_why_not():
    declared = {s["name"]: s["what_if"] for s in page_spec()["strategies"]}
    for name, offered in declared.items():
        assert bool(offered["params"]) != bool(offered["refused"]), name
        assert set(offered["params"]) <= set(params_of(STRATEGIES[name].config))
    assert {"temperature", "top_k", "top_p", "min_p", "repetition_penalty"} <= set(
        declared["sampling"]["params"]
    )
    assert "temperature" not in declared["greedy"]["params"]
    assert "bias" in declared["watermark"]["params"]


def test_a_run_of_the_page_can_be_asked(run):
    assert find_logits(LOGITS_CACHE.get(run[0]), 0).logits is not None
