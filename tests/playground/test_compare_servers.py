"""A comparison with a model behind an address: its text is judged here, and what is unknown stays so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.analysis.likelihood import score_ids
from engine.models.loading import load
from engine.models.text import encode_pair
from playground.tabs import compare
from tests.helpers.jobs import named_rows, read
from tests.helpers.llama_server import Llama, llama_of
from tests.helpers.model_server import FakeServer
from tests.helpers.sentences import clean

PROMPT = "Once upon a time, there was a little girl"
NEW = 6
HERE = {"strategy": "greedy", "params": {"max_new_tokens": NEW}}


def there(server: FakeServer, strategy: str = "greedy", **params: Any) -> dict[str, Any]:
    """Return a column of a model behind an address."""
    asked = {"max_new_tokens": NEW, **params}
    return {"strategy": strategy, "model": f"endpoint:{server.base}#m", "params": asked}


def compared(*columns: dict[str, Any], **changes: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return the messages of the runs of a comparison, and its figures."""
    asked = {"number": 7, "prompt": PROMPT, "seed": 3, "columns": list(columns)}
    told = list(read(compare.COMPARE, {**asked, "base": "storyteller", **changes}))
    return [json.loads(text) for text in told if isinstance(text, str)], told[-1]


def test_the_same_model_here_and_there_writes_one_text_with_one_judgement() -> None:
    with llama_of(load("storyteller")).serve() as server:
        messages, figures = compared(HERE, there(server))
    assert figures["notes"] == []
    starts = [m for m in messages if m["kind"] == "start"]
    assert [m["strategy"] for m in starts] == ["compare-7-0", "compare-7-1"]
    # The texts have the same ids, so no place parts them.
    last = [m["parting"] for m in messages if m["kind"] == "finish"][-1]
    assert (last["common"], last["at"]) == (NEW, None)
    here, served = named_rows(figures)
    assert [part[0] for part in figures["seeds"][0]["diff"][0]["parts"]] == ["equal"]
    for name in ("log-probability per token, nats", "perplexity", "tokens", "rep-2", "distinct-1"):
        assert served[name] == here[name], name
    assert served["strategy"] == here["strategy"] == "Greedy search"
    assert served["weights"] == "on a server"


def test_what_a_server_does_not_say_is_no_number() -> None:
    with llama_of(load("storyteller")).serve() as server:
        messages, figures = compared(HERE, there(server))
    here, served = named_rows(figures)
    assert here["forward passes"] == NEW
    assert served["forward passes"] is None
    assert served["tokens per forward"] is None
    finished = [m for m in messages if m["kind"] == "finish"]
    assert served["seconds"] == (finished[1]["rest"]["timing"]["total_s"] or None)
    assert "nan" not in json.dumps(figures).lower()


def test_a_text_of_other_tokens_is_split_again_and_the_note_says_so() -> None:
    with Llama().serve() as server:
        messages, figures = compared(there(server), HERE)
    [note] = figures["notes"]
    assert clean(str(note)).startswith("A: the tokenizer of storyteller split this text again")
    base = load("storyteller")
    assert base.tokenizer is not None
    [text, *_] = [m["rest"]["outputs"][0]["text"] for m in messages if m["kind"] == "finish"]
    assert text.startswith(" w")
    scores = score_ids(base, *encode_pair(base.tokenizer, PROMPT, text))
    served, here = named_rows(figures)
    assert served["perplexity"] == scores.perplexity
    assert served["perplexity"] > here["perplexity"]


def test_every_seed_reaches_the_server_and_greedy_is_asked_once() -> None:
    llama = llama_of(load("storyteller"))
    with llama.serve() as server:
        messages, figures = compared(there(server, "sampling", top_k=5), there(server), seed="3, 5")
    assert [m["header"]["seed"] for m in messages if m["kind"] == "start"] == [3, 3, 5, 5]
    asked = [sent for sent in llama.completions if sent["n_predict"] == NEW]
    assert [sent["seed"] for sent in asked if sent["temperature"] > 0] == [3, 5]
    assert len(asked) == 3
    assert [seed["seed"] for seed in figures["seeds"]] == ["3", "5"]


def test_a_server_that_dies_leaves_the_other_column_its_figures() -> None:
    llama = llama_of(load("storyteller"))
    llama.dies_after = 2
    with llama.serve() as server:
        messages, figures = compared(there(server), HERE)
    assert [m["kind"] for m in messages].count("fail") == 1
    assert [row["run"] for row in named_rows(figures)][-1] == "B"
    assert named_rows(figures)[-1]["perplexity"] is not None


@pytest.mark.parametrize("base", ["", None])
def test_without_a_judge_the_first_model_here_judges(base: str | None) -> None:
    with llama_of(load("storyteller")).serve() as server:
        _, figures = compared(there(server), there(server), base=base)
        assert figures["base"] == "storyteller"


def test_a_server_is_no_judge() -> None:
    with Llama().serve() as server:
        _, said = compared(HERE, there(server), base=f"endpoint:{server.base}#m")
        assert "a server does not score a text: choose a model on this machine" in clean(
            said["error"]
        )
        assert server.base not in said["error"]
        assert not server.asked
