"""The blind taste test without a browser: a pair is written and measured, stopped, or refused in a sentence."""

from __future__ import annotations

import pytest

from playground.forms import links
from playground.jobs.registry import JOBS
from playground.tabs import taste
from tests.helpers.jobs import begin, read
from tests.helpers.sentences import clean

SHORT = {"max_new_tokens": 6}
GOOD = {
    "prompt": "Once upon a time",
    "seed": 3,
    "columns": [
        {"strategy": "greedy", "model": "storyteller", "params": SHORT},
        {"strategy": "sampling", "model": "storyteller", "params": {**SHORT, "top_k": 5}},
    ],
}


def test_two_texts_come_together_and_nothing_of_one_before_the_other():
    *told, last = read(taste.TASTE, GOOD)
    assert all(set(message) == {"kind", "phase", "says"} for message in told)
    first, second = last["pair"]["texts"]
    assert (first["strategy"], second["strategy"]) == ("greedy", "sampling")
    assert last["pair"]["prompt"] == GOOD["prompt"]
    assert (first["tokens"], second["tokens"]) == (6, 6)
    assert second["params"]["top_k"] == 5
    assert all(text["perplexity"] > 1 and text["rep_3"] == 0 for text in (first, second))
    assert all(first["text"].strip() not in message["says"] for message in told)


def test_a_stop_ends_it_with_a_sentence():
    long = {**GOOD, "columns": [{**c, "params": {"max_new_tokens": 400}} for c in GOOD["columns"]]}
    job = begin(taste.TASTE, long)
    JOBS.stop(job.id)
    *_, message = job.read()
    assert message["kind"] == "failed"
    assert message["stopped"]
    assert message["error"].startswith("Stopped before")


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({}, "two strategies"),
        ({**GOOD, "columns": GOOD["columns"][:1]}, "two strategies"),
        ({**GOOD, "columns": ["x", "y"]}, "must be an object"),
        ({**GOOD, "prompt": ""}, "prompt"),
        ({**GOOD, "seed": -1}, "seed"),
        ({**GOOD, "columns": [{"strategy": "none"}] * 2}, "strategy"),
    ],
    ids=str,
)
def test_what_cannot_be_written_is_refused_in_a_sentence(asked, says):
    *_, last = read(taste.TASTE, asked)
    assert says in last["error"]
    clean(last["error"])


def test_the_tab_has_an_address():
    assert links.open_link("?tab=taste") == {"tab": "taste", "step": None, "recorded": None}
