"""What the page sends for a branch is judged before anything is decoded."""

from __future__ import annotations

import dataclasses
import json
import threading

import pytest

from engine.errors import ParameterError
from engine.models.loading import load
from engine.run import run as engine_run
from playground.forms import links
from playground.jobs.registry import JOBS
from playground.tabs.fork import FORK, read_request
from tests.helpers.gates import gate
from tests.helpers.jobs import read
from tests.helpers.patience import PATIENCE_S

MODEL = "storyteller"


@pytest.fixture(scope="module")
def asked():
    loaded = load(MODEL)
    ids = loaded.tokenizer("Once upon a time,")["input_ids"]
    kept = loaded.tokenizer(" there was", add_special_tokens=False)["input_ids"]
    return {
        "number": 3,
        "prompt_ids": ids,
        "kept_ids": kept,
        "step": len(kept),
        "run_id": "mother",
        "end_ids": list(loaded.eos_token_ids),
        "pieces": {str(i): loaded.pieces[i] for i in (*ids, *kept)},
        "token_id": ids[0],
        "strategy": "greedy",
        "model": MODEL,
        "assistant": "",
        "params": {"max_new_tokens": 3},
        "seed": 0.0,
    }


def test_a_branch_of_a_branch_continues_with_the_whole_text(asked):
    """Its grammar is that of the text since the first run, from the page and from its link."""
    again = {**asked, "earlier": 1, "params": {"structured_outputs": {"regex": ".{1,80}"}}}
    request = read_request(again)
    assert request.parent.earlier == 1
    assert request.parent.written == 1 + len(asked["kept_ids"]) + 1
    opened = links.open_link(links.to_link(request))
    assert opened["branch"]["earlier"] == 1
    with pytest.raises(ParameterError, match="earlier"):
        read_request({**asked, "earlier": len(asked["prompt_ids"])})


def test_a_branchs_text_is_read_as_asked_and_its_link_says_how(asked):
    typed = {**asked, "token_id": None, "text": " there<|endoftext|>"}

    def added(reading="", **more):
        params = {"max_new_tokens": 3, "special_tokens": reading}
        return read_request({**typed, **more, "params": params})

    for request, tokens, reading in (
        (added(), 1, "parse"),
        (added(chat=True), 0, "text"),
        (added("text"), 0, "text"),
        (added("parse", chat=True), 1, "parse"),
    ):
        assert request.parent.token_ids.count(0) == tokens
        assert request.params["special_tokens"] == reading
        opened = links.open_link(links.to_link(request))
        assert opened["form"]["values"]["special_tokens"] == reading
        assert opened["branch"]["text"] == typed["text"]
    assert "special_tokens" not in read_request({**typed, "text": " there"}).params


def test_a_branch_is_streamed_and_named_once(asked):
    answers = list(read(FORK, asked))
    told = [message for message in answers if isinstance(message, dict)]
    messages = [json.loads(text) for text in answers if isinstance(text, str)]
    assert told == [{"number": 3, "run": messages[0]["run"]}]
    header = messages[0]["header"]
    assert header["prompt_ids"] == [*asked["prompt_ids"], *asked["kept_ids"], asked["token_id"]]
    assert header["parent"] == {
        "run_id": "mother",
        "step": asked["step"],
        "kept": len(asked["kept_ids"]),
        "token_ids": [asked["token_id"]],
        "text": None,
        "earlier": 0,
    }
    opened = links.open_link(messages[0]["link"])
    assert opened["branch"] == {n: asked[n] for n in ("prompt_ids", "kept_ids", "step", "token_id")}
    assert messages[-1]["kind"] == "finish"


def test_a_branch_is_loaded_as_its_form_says_and_its_link_says_so(asked):
    held = {"quantization": "8bit", "max_memory": "", "device_map": ""}
    change = {"params": {**asked["params"], **held}, "token_id": None, "text": " and"}
    answers = read(FORK, {**asked, **change})
    messages = [json.loads(text) for text in answers if isinstance(text, str)]
    header = next(m["header"] for m in messages if m["kind"] == "start")
    assert header["model"]["weights"]["quantization"] == "8bit"
    link = next(m["link"] for m in messages if m["kind"] == "start")
    assert links.open_link(link)["form"]["values"]["quantization"] == "8bit"
    assert messages[-1]["kind"] == "finish"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"strategy": "guess"}, "strategy = 'guess'"),
        ({"strategy": None}, "strategy"),
        ({"prompt_ids": "x"}, "prompt_ids"),
        ({"kept_ids": [1.5]}, "kept_ids"),
        ({"kept_ids": [-1]}, "kept_ids"),
        ({"prompt_ids": [], "kept_ids": []}, "input_ids"),
        ({"prompt_ids": [5] * 3000}, "input_ids"),
        ({"step": -1}, "step"),
        ({"step": True}, "step"),
        ({"run_id": "x" * 65}, "run_id"),
        ({"token_id": None}, "choose a token or type a text"),
        ({"token_id": 10**6}, "token_id"),
        ({"text": ""}, "token_id"),
        ({"token_id": None, "text": ""}, "write 1 to"),
        ({"params": []}, None),
        ({"params": [1]}, "params"),
        ({"params": {"max_new_tokens": -1}}, "max_new_tokens"),
        ({"seed": -1}, "seed = -1"),
        ({"seed": None}, "seed"),
        ({"model": "no-such-model"}, "no-such-model"),
        ({"model": "foreign-draft"}, "its tokens are not those of the run"),
        ({"pieces": None}, "its tokens are not those of the run"),
    ],
)
def test_what_cannot_be_is_one_sentence_for_the_page(asked, change, says):
    # A model that has to be loaded first is told of first.
    load("foreign-draft")
    answers = list(read(FORK, {**asked, **change}))
    if says is None:
        assert any("run" in answer for answer in answers if isinstance(answer, dict))
        return
    [message] = answers
    assert says in message["error"]
    assert message["number"] == 3


def test_a_branch_that_is_stopped_in_line_says_so_where_it_waits(asked, monkeypatch):
    settings = dataclasses.replace(engine_run.SETTINGS, max_shared_runs=1)
    monkeypatch.setattr(engine_run, "SETTINGS", settings)
    with gate(load(MODEL).model, free=0) as held:
        first = threading.Thread(target=lambda: list(read(FORK, asked)))
        first.start()
        held.wait()
        waiting = JOBS.start(FORK, "waits", asked)
        answers, _ = waiting.wait_for_messages(0, PATIENCE_S)
        assert answers
        waiting.stop()
        answers = list(waiting.read())
        held.open()
        first.join(PATIENCE_S)
    said = [message for message in answers if isinstance(message, dict)]
    assert [sorted(message) for message in said] == [["number", "run"]]
    assert json.loads(answers[-1])["error"] == "Stopped before it began."


def test_the_end_of_text_and_a_full_context_are_refused(asked):
    end = {**asked, "token_id": asked["end_ids"][0]}
    assert "nothing can follow it" in next(read(FORK, end))["error"]
    full = load(MODEL).context_length
    long = {**asked, "prompt_ids": asked["prompt_ids"] * (full // 4)}
    assert "context is" in next(read(FORK, long))["error"]


@pytest.mark.parametrize("asked", [{}, {"number": "x"}], ids=str)
def test_anything_else_is_a_sentence_too(asked):
    [answer] = read(FORK, asked)
    assert answer["number"] == 0
    assert answer["error"].endswith(".")
