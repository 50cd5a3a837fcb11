"""Conversations through the page's doors: forms, links, runs, comparisons, draws, the bench, the API."""

from __future__ import annotations

import json
from urllib.parse import parse_qsl, urlencode

import pytest

from engine import DecodeRequest
from engine.errors import ParameterError
from engine.run.request import check_request
from playground.forms import links
from playground.forms.form import form_request
from playground.forms.links import open_link, to_form, to_link, trace_form
from playground.server.api import decode_to_end
from playground.tabs import compare, draws, fork
from playground.tabs import watermark_bench as bench
from tests.helpers.jobs import read, read_run
from tests.helpers.runs import finished
from tests.helpers.talker import TOOLS, said, talker

TALK = said("the bear & <b>", "ran €", "why", system="be kind")
TEMPLATE = {"enable_thinking": False, "tools": TOOLS}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A talker as a folder, by whose name the page asks for it."""
    folder = tmp_path_factory.mktemp("talker") / "qwen3"
    loaded = talker("qwen3")
    loaded.model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    return str(folder)


def form(place, **changes):
    return {
        "strategy": "sampling",
        "model": place,
        "prompt": "",
        "messages": TALK,
        "template": TEMPLATE,
        "seed": "3",
        "params": {"max_new_tokens": 3},
        **changes,
    }


def test_a_form_asks_for_a_conversation(place):
    request = form_request(form(place))
    assert (request.prompt, request.messages, request.template) == (None, TALK, TEMPLATE)
    check_request(request)
    typed = form_request(form(place, messages=None, prompt="hi"))
    assert (typed.prompt, typed.messages, typed.template) == ("hi", None, None)


def test_a_link_holds_the_conversation(place):
    request = form_request(form(place))
    query = dict(parse_qsl(to_link(request).removeprefix("?")))
    again = links.request_from_link(query)
    assert (again.prompt, again.messages, again.template) == (None, TALK, TEMPLATE)
    found = open_link(to_link(request))["form"]
    assert found["messages"] == TALK
    assert found["template"] == TEMPLATE
    assert found["prompt"] is None


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"messages": "["}, "messages"),
        ({"messages": "{}"}, "messages"),
        ({"messages": "[7]"}, "messages[0]"),
        ({"messages": '[{"role": "user", "content": "a"}]', "template": "[]"}, "template"),
        ({"messages": '[{"role": "user", "content": "a"}]', "template": "{"}, "template"),
        (
            {"messages": '[{"role": "user", "content": "a"}]', "template": '{"tokenize": 1}'},
            "template.tokenize",
        ),
        ({"messages": "[" * 90_000}, "messages"),
    ],
)
def test_a_bad_link_names_the_field(query, parameter):
    with pytest.raises(ParameterError) as caught:
        open_link("?" + urlencode({"strategy": "greedy", **query}))
    assert caught.value.parameter == parameter


def test_a_run_streams_its_conversation_and_is_asked_for_again(place):
    told = [json.loads(text) for text in read_run(form_request(form(place)))]
    messages = [m for m in told if m["kind"] != "progress"]
    start = messages[0]
    assert start["form"]["messages"] == TALK
    assert start["header"]["messages"] == TALK
    assert start["header"]["prompt_turns"][-1]["role"] == "template"
    assert messages[-1]["kind"] == "finish"
    assert {"messages", "template", "prompt_turns", "literal_tokens"} <= set(
        start["header"]["fields"]
    )


@pytest.mark.parametrize("talk", [TALK, TALK[:-1]], ids=["answered anew", "continued"])
def test_the_form_of_a_recorded_run_makes_it_again(place, talk):
    request = form_request(form(place, messages=talk))
    trace = finished(request)
    found = trace_form(trace)
    assert found is not None
    assert found["template"] == TEMPLATE
    again = form_request({**found, "params": {"max_new_tokens": 3}})
    assert finished(again).outputs == trace.outputs
    assert to_form(again)["messages"] == talk


def test_a_run_is_continued_with_its_ids(place):
    trace = finished(form_request(form(place)))
    asked = {
        "strategy": "greedy",
        "model": place,
        "prompt_ids": list(trace.prompt_ids),
        "kept_ids": [],
        "end_ids": [],
        "step": 0,
        "run_id": "",
        "pieces": {str(i): piece for i, piece in trace.pieces.items()},
        "text": "so",
        "seed": 0,
        "params": {"max_new_tokens": 2},
    }
    request = fork.read_request(asked)
    assert request.input_ids[: len(trace.prompt_ids)] == list(trace.prompt_ids)
    assert finished(request).parent is not None


def test_columns_share_a_conversation(place):
    columns = [{"strategy": name, "model": place} for name in ("greedy", "beam_search")]
    for column in columns:
        column["params"] = {"max_new_tokens": 2}
    shared = {"messages": TALK, "template": TEMPLATE, "prompt": "", "seed": 3, "number": 1}
    asked = {**shared, "columns": columns}
    told = list(read(compare.COMPARE, asked))
    figures = [m for m in told if isinstance(m, dict) and m["kind"] == "figures"]
    assert figures, told[-1]
    assert figures[0]["notes"] == []
    query = urlencode({"tab": "compare", "form": json.dumps(asked)})
    found = open_link("?" + query)["form"]
    assert (found["messages"], found["template"], found["prompt"]) == (TALK, TEMPLATE, None)
    [refused] = read(compare.COMPARE, {**asked, "messages": []})
    assert "a list of 1 to 64 messages" in refused["error"]


def test_many_draws_of_a_conversation(place):
    asked = form(place, draws=3, seed=0)
    *_, last = read(draws.DRAWS, asked)
    assert (last["kind"], last["draws"]) == ("done", 3)
    query = urlencode({"tab": "draws", "form": json.dumps(asked)})
    assert open_link("?" + query)["form"]["messages"] == TALK


def test_the_bench_marks_an_answer(place):
    asked = form(place, params={"max_new_tokens": 12})
    *_, last = read(bench.BENCH, asked)
    assert "<b>Prompt, never counted:</b> <span class='t'>why</span></p>" in last["pair"]
    assert "be kind" not in last["pair"]


def test_the_endpoint_takes_messages_in_place_of_a_prompt(place):
    params = {"max_new_tokens": 3}
    asked = {"messages": TALK, "template": TEMPLATE}
    answer = decode_to_end("sampling", asked, place, params, 3)
    trace = finished(
        DecodeRequest("sampling", place, messages=TALK, template=TEMPLATE, params=params, seed=3)
    )
    assert answer["outputs"][0]["token_ids"] == list(trace.outputs[0].token_ids)


@pytest.mark.parametrize(
    ("prompt", "parameter"),
    [
        ({}, "prompt"),
        ({"template": {}}, "prompt"),
        ({"messages": TALK, "model": "x"}, "prompt"),
        ({"messages": [7]}, "messages[0]"),
        ({"messages": None}, "prompt"),
    ],
)
def test_the_endpoint_refuses_what_is_neither(prompt, parameter):
    with pytest.raises(ParameterError) as caught:
        decode_to_end("greedy", prompt, None, {}, 0)
    assert caught.value.parameter == parameter
