"""The table and the numbers of the draft timeline carry what the trace recorded."""

from __future__ import annotations

import pytest

from engine import trace_json
from tests.helpers.drafting import finish
from tests.helpers.models import golden_model
from visualizers import draft_timeline


@pytest.fixture(scope="module")
def sampled():
    params = {
        "max_new_tokens": 30,
        "do_sample": True,
        "top_k": 0,
        "num_assistant_tokens": 4,
        "assistant_confidence_threshold": 0.0,
        "plain_run": True,
        "suppress_tokens": [2],
    }
    trace = finish("speculative", params, assistant=golden_model("llama"), seed=1)
    return trace_json.loads(trace_json.dumps(trace))


def test_the_table_replays_to_the_output(sampled):
    view = draft_timeline.view(sampled)
    pieces = [
        row[2] for row in view["rows"] if row[7] in {"accepted", "resampled", "bonus", "target"}
    ]
    ids = sampled.outputs[0].token_ids
    assert pieces == [sampled.pieces[i] for i in ids]
    drafted = [row for row in view["rows"] if row[1] is not None]
    assert drafted
    assert all(row[5] == pytest.approx(min(1, row[3] / row[4]), abs=1e-4) for row in drafted)


@pytest.mark.parametrize("weight", [None, 0.5])
def test_a_token_is_kept_exactly_when_u_is_at_most_the_ratio(weight):
    params = {
        "assistant_ensemble_weight": weight,
        "max_new_tokens": 40,
        "do_sample": True,
        "top_k": 0,
        "num_assistant_tokens": 3,
        "assistant_confidence_threshold": 0.0,
    }
    trace = finish("speculative", params, assistant=golden_model("llama_draft"), seed=2)
    judged = [
        row for row in draft_timeline.view(trace)["rows"] if row[7] in {"accepted", "rejected"}
    ]
    assert {row[7] for row in judged} == {"accepted", "rejected"}
    for row in judged:
        assert (row[6] <= row[5] + 1e-5) if row[7] == "accepted" else (row[6] > row[5] - 1e-5)


def test_the_summary_adds_up(sampled):
    numbers = draft_timeline.summary(sampled)
    steps = sampled.steps
    assert numbers["rounds"] == len(steps)
    assert numbers["tokens_per_target_pass"] == pytest.approx(30 / len(steps), abs=1e-5)
    assert numbers["draft_passes"] == sum(step.detail.draft_length for step in steps)
    # The draft is the target itself, so whatever it proposed was right.
    assert numbers["acceptance_rate"] == 1
    report = steps[-1].detail.report
    plain = report.plain_s / report.plain_tokens
    assert numbers["measured_speed_up"] == pytest.approx(
        plain / (steps[-1].elapsed_s / 30), rel=1e-4
    )
    kept = [kept for kept, _ in draft_timeline.by_place(sampled)]
    assert sum(kept) == sum(draft_timeline.accepted(step) for step in steps)


def test_the_figure_has_one_point_a_round(sampled):
    figure = draft_timeline.view(sampled)["figure"]
    assert all(len(trace["x"]) == len(sampled.steps) for trace in figure["data"])
    assert figure["data"][-1]["y"][-1] == pytest.approx(30 / len(sampled.steps), abs=1e-4)


@pytest.mark.parametrize(
    ("rate", "length", "cost", "expected"),
    [(0.0, 5, 0.0, 1.0), (1.0, 4, 0.25, 4.0), (0.8, 5, 0.0, 3.68928)],
)
def test_the_papers_formula(rate, length, cost, expected):
    assert draft_timeline.expected_speed_up(rate, length, cost) == pytest.approx(expected, abs=1e-4)


def test_a_trace_without_drafts_is_an_empty_table():
    view = draft_timeline.view(finish("greedy", {"max_new_tokens": 3}))
    assert (view["rows"], view["summary"]) == ([], {})
