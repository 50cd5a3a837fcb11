"""The table of contrastive search carries what the trace recorded."""

from __future__ import annotations

import dataclasses

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


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_what_a_step_shows_of_the_choice(name):
    trace = traced(name)
    looks = contrastive.Looks(trace)
    shown = [looks.add(step) for step in trace.steps]
    changed = 0
    for count, (step, values) in enumerate(zip(trace.steps, shown, strict=True), start=1):
        options = step.detail.options
        changed += step.emit[0] != options[0].token_id
        assert (values["steps"], values["changed"]) == (count, changed)
        assert values["gain"] == max(o.score for o in options) - options[0].score
        assert (values["gain"] > 0) == (step.emit[0] != options[0].token_id)
    assert changed


def test_every_sequence_looks_back_to_its_own_text():
    once = traced("llama")
    count = len(once.steps)
    again = [dataclasses.replace(s, index=s.index + count, sequence=1) for s in once.steps]
    twice = dataclasses.replace(once, steps=(*once.steps, *again), outputs=once.outputs * 2)
    rows = contrastive.view(twice)["rows"]
    half = len(rows) // 2
    assert [row[1:] for row in rows[half:]] == [row[1:] for row in rows[:half]]
