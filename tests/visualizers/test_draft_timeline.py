"""The table and the numbers of the draft timeline carry what the trace recorded."""

from __future__ import annotations

import pytest

from engine import LoadedModel
from engine.trace import json_io
from tests.helpers.drafting import drafter, finish
from tests.helpers.models import golden_model
from visualizers.draft_timeline import summary as draft_timeline


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
    return json_io.loads(json_io.dumps(trace))


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


@pytest.fixture(scope="module")
def rejected():
    """A run whose drafts are of several lengths and often wrong."""
    params = {
        "max_new_tokens": 40,
        "num_assistant_tokens": 6,
        "num_assistant_tokens_schedule": "heuristic",
        "assistant_confidence_threshold": 0.4,
    }
    return finish("speculative", params, assistant=LoadedModel(drafter("llama", 0.05)))


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
    assert sum(kept) == sum(draft_timeline.accepted(step.detail) for step in steps)


def test_what_was_never_judged_counts_neither_way(rejected):
    details = [step.detail for step in rejected.steps]
    statuses = [token.status for detail in details for token in detail.tokens]
    assert set(statuses) == {"accepted", "rejected", "unverified"}
    places = draft_timeline.by_place(rejected)
    accepted, judged = (sum(numbers) for numbers in zip(*places, strict=True))
    assert accepted == statuses.count("accepted")
    assert judged == accepted + statuses.count("rejected")
    numbers = draft_timeline.summary(rejected)
    assert numbers["acceptance_rate"] == pytest.approx(accepted / judged, abs=1e-6)
    assert numbers["accepted_per_round"] == pytest.approx(accepted / len(details), abs=1e-6)
    asked = sum(detail.requested_length for detail in details)
    assert numbers["draft_passes"] == sum(d.draft_forwards for d in details) < asked


def test_the_figure_has_one_point_a_round(rejected):
    figure = draft_timeline.view(rejected)["figure"]
    steps = rejected.steps
    assert all(trace["x"] == [step.index + 1 for step in steps] for trace in figure["data"])
    asked, drafted, accepted, running = (trace["y"] for trace in figure["data"])
    assert asked == [step.detail.requested_length for step in steps]
    assert drafted == [len(step.detail.tokens) for step in steps]
    kept = [[t.status for t in step.detail.tokens].count("accepted") for step in steps]
    assert accepted == kept != drafted
    written = len(rejected.outputs[0].token_ids)
    assert running[-1] == pytest.approx(written / len(steps), abs=1e-4)


@pytest.mark.parametrize(
    ("rate", "length", "cost", "expected"),
    [(0.0, 5, 0.0, 1.0), (1.0, 4, 0.25, 4.0), (0.8, 5, 0.0, 3.68928)],
)
def test_the_papers_formula(rate, length, cost, expected):
    assert draft_timeline.expected_speed_up(rate, length, cost) == pytest.approx(expected, abs=1e-4)


def test_a_trace_without_drafts_is_an_empty_table():
    view = draft_timeline.view(finish("greedy", {"max_new_tokens": 3}))
    assert (view["rows"], view["summary"]) == ([], {})
