"""The many-draws tab without a browser: progress, cancelling, and one sentence for what is wrong."""

from __future__ import annotations

import pytest

from engine.analysis.many_draws import BATCH_SIZE
from playground.jobs.registry import JOBS
from playground.tabs import draws
from tests.helpers.jobs import begin, read

GOOD = {
    "prompt": "Once upon a time",
    "model": "storyteller",
    "draws": 70,
    "seed": 0,
    "params": {"max_new_tokens": 3, "temperature": 1.0, "top_k": 50, "top_p": 1.0},
}


def test_progress_grows_and_ends_with_all_draws():
    told = list(read(draws.DRAWS, GOOD))
    messages = [message for message in told if message["kind"] != "progress"]
    assert [m["draws"] for m in messages] == [0, 32, 64, 70, 70]
    assert [m["kind"] for m in messages] == [*["running"] * 4, "done"]
    assert sum(row[1] for row in messages[-1]["rows"]) <= 70
    assert messages[-1]["tree"]["count"] == 70


def test_a_cancel_keeps_what_was_drawn():
    messages = []
    job = begin(draws.DRAWS, {**GOOD, "draws": 500})
    for message in job.read():
        messages.append(message)
        if message.get("draws"):
            JOBS.stop(job.id)
    assert messages[-1]["kind"] == "stopped"
    # The batch at work is left out.
    assert messages[-1]["draws"] % BATCH_SIZE == 0
    assert 0 < messages[-1]["draws"] < 500


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
    *_, last = read(draws.DRAWS, asked)
    assert last["kind"] == "failed"
    assert says in last["error"]
    assert "Something went wrong" not in last["error"]


def test_an_empty_form_gets_one_sentence():
    *_, last = read(draws.DRAWS, {})
    assert last["kind"] == "failed"
    assert "Something went wrong" not in last["error"]
