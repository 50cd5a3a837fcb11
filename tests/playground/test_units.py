"""Controls, links, messages and the guard, without a browser."""

from __future__ import annotations

import json

import gradio as gr
import pytest

from engine import DecodeRequest, LoadedModel
from engine.declare.params import params_of
from engine.errors import ParameterError
from engine.sources.catalogue import CATALOGUE, drafts_for
from engine.strategies import STRATEGIES
from playground.forms import controls
from playground.forms.links import request_from_link, to_link
from playground.jobs.registry import JOBS
from playground.runs.stream import run_state
from playground.shell.guard import error_message, guard_handler
from tests.helpers.gates import gate
from tests.helpers.jobs import begin_run, read_run
from tests.helpers.models import fresh_model, golden_model


def test_lists_are_read_as_json_or_words():
    kinds = params_of(STRATEGIES["sampling"].config)
    assert controls.from_control("stop_strings", kinds["stop_strings"], "a, b") == ["a", "b"]
    assert controls.from_control("bad_words_ids", kinds["bad_words_ids"], "[[1, 2]]") == [[1, 2]]
    assert controls.from_control("suppress_tokens", kinds["suppress_tokens"], "3, 4") == [3, 4]
    forced = kinds["forced_eos_token_id"]
    assert [controls.from_control("", forced, text) for text in ("", "3", " the")] == [
        None,
        3,
        " the",
    ]
    with pytest.raises(ParameterError, match="not valid JSON"):
        controls.from_control("bad_words_ids", kinds["bad_words_ids"], "[[1,")


def test_a_link_holds_the_whole_request():
    request = DecodeRequest(
        "sampling",
        "storyteller",
        'a "b" & <c>\n€',
        seed=7,
        params={"temperature": 0.5, "bad_words_ids": [[1, 2]]},
    )
    from urllib.parse import parse_qsl

    again = request_from_link(dict(parse_qsl(to_link(request).removeprefix("?"))))
    assert (again.prompt, again.seed, again.model) == (request.prompt, 7, "storyteller")
    assert again.params == {"temperature": 0.5, "bad_words_ids": ((1, 2),)}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"seed": "-1"}, "seed"),
        ({"seed": "x"}, "seed"),
        ({"seed": "9" * 30}, "seed"),
        ({"params": "["}, "params"),
        ({"params": "[]"}, "params"),
        ({"params": '{"temperature": NaN}'}, "temperature"),
        ({"params": '{"top_k": "x"}'}, "top_k"),
    ],
)
def test_bad_links_name_the_field(query, said):
    with pytest.raises(ParameterError, match=said):
        request_from_link({"strategy": "sampling", "prompt": "a", **query})
    with pytest.raises(ParameterError, match="strategy"):
        request_from_link({"strategy": "nope"})


def test_messages_are_numbered_and_complete():
    request = DecodeRequest(
        "greedy", golden_model("llama"), input_ids=[5, 9], params={"max_new_tokens": 30}
    )
    messages = [json.loads(text) for text in read_run(request)]
    assert [m["seq"] for m in messages] == list(range(len(messages)))
    assert (messages[0]["kind"], messages[-1]["kind"]) == ("start", "finish")
    steps = [s for m in messages for s in m.get("steps", [])]
    assert [s["index"] for s in steps] == list(range(30))
    state = json.loads(run_state(messages[0]["run"]))
    assert state["messages"] == messages
    assert json.loads(run_state("unknown"))["messages"] == []


def test_a_run_is_stopped_by_its_id():
    loaded = LoadedModel(fresh_model("llama"))
    request = DecodeRequest("greedy", loaded, input_ids=[5, 9], params={"max_new_tokens": 50})
    with gate(loaded.model, free=2) as held:
        job = begin_run(request)
        held.wait()
        JOBS.stop(job.id)
        held.open()
        *_, last = map(json.loads, job.read())
    assert last["rest"]["outputs"][0]["finish_reason"] == "cancelled"
    assert held.passes == 3


@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt(), ValueError("secret"), BaseException("x")]
)
def test_the_guard_turns_everything_into_one_sentence(error):
    def handler():
        raise error

    with pytest.raises(gr.Error) as caught:
        guard_handler(handler)()
    assert "secret" not in str(caught.value)
    assert (
        error_message(ParameterError("a", 1, "it must be 2"))
        == "a = 1 is not allowed: it must be 2."
    )


def test_a_draft_is_offered_only_with_a_target_it_fits():
    names = lambda target, kind: [e.name for e in drafts_for(target, kind)]  # noqa: E731
    assert names("storyteller", "same_tokenizer") == ["storyteller-draft"]
    assert names("HuggingFaceTB/SmolLM2-360M", "same_tokenizer") == ["HuggingFaceTB/SmolLM2-135M"]
    assert names("distilbert/distilgpt2", "same_tokenizer") == []
    assert names("storyteller", "none") == []
    universal = names("storyteller", "any_tokenizer")
    assert universal[0] == "foreign-draft"
    assert "storyteller" not in universal
    for entry in CATALOGUE.values():
        assert all(target in CATALOGUE for target in entry.fits)
