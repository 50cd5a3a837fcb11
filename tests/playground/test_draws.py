"""The many-draws tab without a browser: progress, cancelling, and one sentence for what is wrong."""

from __future__ import annotations

import json

import pytest

from playground import draws

GOOD = ["Once upon a time", "storyteller", 70, 3, 1.0, 50, 1.0, 0]


def test_progress_grows_and_ends_with_all_draws():
    messages = [json.loads(text) for text in draws.draw(*GOOD)]
    assert [m["draws"] for m in messages] == [0, 32, 64, 70, 70]
    assert [m["kind"] for m in messages] == [*["running"] * 4, "done"]
    assert sum(row[1] for row in messages[-1]["rows"]) <= 70
    assert messages[-1]["tree"]["count"] == 70
    assert not draws._RUNNING


def test_a_cancel_keeps_what_was_drawn():
    messages = []
    for text in draws.draw(*GOOD[:2], 500, *GOOD[3:]):
        messages.append(json.loads(text))
        if messages[-1]["draws"]:
            draws.cancel(messages[-1]["id"])
    assert messages[-1]["kind"] == "stopped"
    assert messages[-1]["draws"] == 32
    draws.cancel("unknown")
    draws.cancel(None)
    draws.cancel(["unknown"])


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        (0, "", "prompt"),
        (1, "no-such-model", "no-such-model"),
        (2, 1, "draws = 1"),
        (2, None, "draws"),
        (3, 65, "max_new_tokens = 65"),
        (4, 0, "temperature = 0"),
        (4, float("nan"), "temperature = nan"),
        (5, -1, "top_k = -1"),
        (6, 7, "top_p = 7"),
        (7, -1, "seed = -1"),
        (7, "", "seed"),
    ],
    ids=str,
)
def test_what_is_wrong_gets_one_sentence(at, value, says):
    values = [*GOOD[:at], value, *GOOD[at + 1 :]]
    last = json.loads(list(draws.draw(*values))[-1])
    assert last["kind"] == "failed"
    assert says in last["error"]
    assert "Something went wrong" not in last["error"]
