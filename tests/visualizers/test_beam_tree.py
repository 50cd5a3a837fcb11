"""The table of the beam tree carries what the trace recorded."""

from __future__ import annotations

import math

import pytest

from engine import DecodeRequest
from tests.helpers.models import golden_model
from tests.helpers.runs import finished, reread
from visualizers.beam_tree import summary as beam_tree

PROMPT = [1, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("strategy", ["beam_search", "beam_sampling", "diverse_beam_search"])
def test_every_candidate_is_a_row_and_paths_add_up(strategy):
    request = DecodeRequest(
        strategy, golden_model("llama"), input_ids=PROMPT, params={"max_new_tokens": 8}
    )
    trace = reread(request)
    view = beam_tree.view(trace)
    rows = {row[1]: dict(zip(view["columns"], row, strict=True)) for row in view["rows"]}
    assert len(rows) == sum(len(s.detail.pool) for s in trace.steps)
    for row in rows.values():
        parent = rows.get(row["parent"])
        assert (parent is None) == (row["step"] == 0)
        assert row["p"] == pytest.approx(math.exp(row["log p"]))
        before = parent["sum"] if parent else 0.0
        assert row["sum"] == pytest.approx(before + row["log p"], abs=1e-4)
    winner, path = view["summary"]["winner"], []
    while winner != -1:
        path.append(rows[winner]["token"])
        winner = rows[winner]["parent"]
    assert path[::-1] == [trace.pieces[i] for i in trace.outputs[0].token_ids]
    assert beam_tree.rescored(trace)["rows"][0][0] == view["summary"]["winner"]


def test_the_greedy_path_is_named_and_the_stopping_test_has_no_placeholders():
    params = {"max_new_tokens": 6, "num_beams": 3}
    request = DecodeRequest("beam_search", golden_model("gpt2"), input_ids=PROMPT, params=params)
    trace = finished(request)
    last = trace.steps[-1].detail
    assert set(last.greedy.token_ids) <= set(trace.pieces)
    assert beam_tree.view(trace)["summary"]["greedy_sum"] == last.greedy.sum_logprobs
    # At the longest length every beam has ended: nothing is open, so nothing can be reached.
    assert last.best_running is None
    for step in trace.steps[:-1]:
        assert step.detail.best_running > -1000


def test_other_strategies_have_no_tree():
    trace = finished(DecodeRequest("greedy", golden_model("llama"), input_ids=PROMPT))
    assert beam_tree.view(trace)["rows"] == []
    assert beam_tree.rescored(trace)["rows"] == []
