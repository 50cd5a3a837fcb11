"""A run beside another model, as the page asks for it."""

from __future__ import annotations

import csv
from typing import Any

import pytest

import engine
from engine.analysis.server_comparison import compare_with_server
from engine.errors import EngineError
from engine.models.loading import load
from engine.run.decoding import trace_of
from engine.serving import decode
from engine.trace import json_io
from engine.trace.records import Trace
from playground.inspect.questions import answer_question
from tests.helpers.llama_server import llama_of


@pytest.fixture(scope="module")
def served() -> Trace:
    """Return a run of Storyteller behind an address."""
    with llama_of(load("storyteller")).serve() as server:
        asked = engine.DecodeRequest(
            "greedy",
            f"endpoint:{server.base}#m",
            "Once upon a time",
            params={"max_new_tokens": 4},
        )
        return trace_of([*decode(asked)][-1])


def ask(trace: Trace, **changes: Any) -> dict[str, Any]:
    """Ask as the page does."""
    return answer_question(
        {"action": "beside", "trace": json_io.trace_to_dict(trace), "press": "a", **changes}
    )


def test_a_model_here_reads_what_a_server_wrote(served: Trace) -> None:
    told = ask(served, model="storyteller-draft")
    found = compare_with_server(served, load("storyteller-draft"))
    rows = list(csv.DictReader(told.pop("csv").splitlines()))
    assert told == found.to_dict()
    assert [row["text"] for row in rows] == [found.pieces[token.token_id] for token in found.tokens]
    for row, token in zip(rows, found.tokens, strict=True):
        bounds = float(row["kl_low_nats"]), float(row["kl_high_nats"])
        assert bounds == token.kl
        assert 0 <= bounds[0] <= bounds[1]
    assert told["same_prompt"]
    assert told["mean_kl"][0] > ask(served, model="storyteller")["mean_kl"][0]


@pytest.mark.parametrize(
    ("model", "says"),
    [("", "Name the model here"), ("nobody/nothing", "nobody/nothing"), (5, "Name the model")],
)
def test_what_cannot_read_it_is_one_sentence(served: Trace, model: Any, says: str) -> None:
    with pytest.raises(EngineError, match=says):
        ask(served, model=model)
