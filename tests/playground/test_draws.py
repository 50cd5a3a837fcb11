"""The many-draws tab without a browser: progress, cancelling, and one sentence for what is wrong."""

from __future__ import annotations

import json

import pytest

from engine.analysis.many_draws import BATCH_SIZE
from playground.tabs import draws

GOOD = {
    "prompt": "Once upon a time",
    "model": "storyteller",
    "draws": 70,
    "seed": 0,
    "params": {"max_new_tokens": 3, "temperature": 1.0, "top_k": 50, "top_p": 1.0},
}


def test_progress_grows_and_ends_with_all_draws():
    told = [json.loads(text) for text in draws.stream_draws(GOOD)]
    messages = [message for message in told if message["kind"] != "progress"]
    assert [m["draws"] for m in messages] == [0, 32, 64, 70, 70]
    assert [m["kind"] for m in messages] == [*["running"] * 4, "done"]
    assert sum(row[1] for row in messages[-1]["rows"]) <= 70
    assert messages[-1]["tree"]["count"] == 70
    assert not draws._RUNNING


def test_a_cancel_keeps_what_was_drawn():
    messages = []
    for text in draws.stream_draws({**GOOD, "draws": 500}):
        messages.append(json.loads(text))
        if messages[-1].get("draws"):
            draws.cancel_draws(messages[-1]["id"])
    assert messages[-1]["kind"] == "stopped"
    # The batch at work is left out.
    assert messages[-1]["draws"] % BATCH_SIZE == 0
    assert 0 < messages[-1]["draws"] < 500
    draws.cancel_draws("unknown")
    draws.cancel_draws(None)
    draws.cancel_draws(["unknown"])


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("prompt", "", "prompt"),
        ("model", "no-such-model", "no-such-model"),
        ("draws", 1, "draws = 1"),
        ("draws", None, "draws"),
        ("max_new_tokens", 65, "max_new_tokens = 65"),
        ("temperature", 0, "temperature = 0"),
        ("temperature", float("nan"), "temperature = nan"),
        ("top_k", -1, "top_k = -1"),
        ("top_p", 7, "top_p = 7"),
        ("seed", -1, "seed = -1"),
        ("seed", "", "seed"),
        ("params", 5, "params = 5"),
    ],
    ids=str,
)
def test_what_is_wrong_gets_one_sentence(name, value, says):
    own = name in GOOD
    asked = {**GOOD, name: value} if own else {**GOOD, "params": {**GOOD["params"], name: value}}
    last = json.loads(list(draws.stream_draws(asked))[-1])
    assert last["kind"] == "failed"
    assert says in last["error"]
    assert "Something went wrong" not in last["error"]


@pytest.mark.parametrize("asked", [None, [], "x", {}], ids=str)
def test_what_is_no_form_gets_one_sentence(asked):
    *_, last = (json.loads(text) for text in draws.stream_draws(asked))
    assert last["kind"] == "failed"
    assert "Something went wrong" not in last["error"]
