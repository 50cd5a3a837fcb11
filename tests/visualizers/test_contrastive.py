"""The table of contrastive search carries what the trace recorded."""

from __future__ import annotations

import pytest

from engine import DecodeRequest
from tests.helpers.models import golden_model
from tests.helpers.runs import reread
from visualizers.contrastive import summary as contrastive

PROMPT = [1, 5, 6, 7, 5, 6, 7, 8]


def traced(name):
    params = {"max_new_tokens": 12, "penalty_alpha": 0.6, "top_k": 4}
    request = DecodeRequest(
        "contrastive_search", golden_model(name), input_ids=PROMPT, params=params
    )
    return reread(request)


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_rows_add_up_and_name_the_earlier_token(name):
    trace = traced(name)
    view = contrastive.view(trace)
    rows = [dict(zip(view["columns"], row, strict=True)) for row in view["rows"]]
    assert len(rows) == 4 * len(trace.steps)
    ids = [*([] if name == "t5" else PROMPT), *trace.outputs[0].token_ids]
    for row in rows:
        assert row["score"] == pytest.approx(row["confidence"] - row["penalty"], abs=3e-6)
        expected = trace.pieces[ids[row["position"]]] if row["position"] >= 0 else "start"
        assert row["similar to"] == expected
    chosen = [row["token"] for row in rows if row["chosen"]]
    assert chosen == [trace.pieces[i] for i in trace.outputs[0].token_ids]


def test_the_figure_and_the_summary():
    trace = traced("llama")
    view = contrastive.view(trace)
    gains, pays, score = view["figure"]["data"]
    sums = [a + b for a, b in zip(gains["y"], pays["y"], strict=True)]
    assert sums == pytest.approx(score["y"], abs=3e-6)
    changed = [s.index for s in trace.steps if s.emit[0] != s.detail.options[0].token_id]
    assert view["summary"]["changed"] == changed
    assert view["summary"]["repeated_3_grams"] == trace.metrics["rep_3"]
