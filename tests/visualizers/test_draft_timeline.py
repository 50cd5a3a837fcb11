"""The numbers of the draft timeline are those of the rounds that the trace recorded."""

from __future__ import annotations

import dataclasses

import pytest

from engine import LoadedModel
from engine.analysis import gallery
from engine.trace import json_io
from engine.trace.details import DistributionCheck, DraftToken
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


def test_every_ratio_is_that_of_its_token(sampled):
    for step, values in zip(sampled.steps, shown(sampled), strict=True):
        expected = [min(1, token.p / token.q) for token in step.detail.tokens]
        assert values["ratio"] == pytest.approx(expected, abs=1e-4)


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
        (token, ratio)
        for step, values in zip(trace.steps, shown(trace), strict=True)
        for token, ratio in zip(step.detail.tokens, values["ratio"], strict=True)
        if token.status != "unverified"
    ]
    assert {token.status for token, _ in judged} == {"accepted", "rejected"}
    for token, ratio in judged:
        kept = token.status == "accepted"
        assert (token.u <= ratio + 1e-5) if kept else (token.u > ratio - 1e-5)


def shown(trace):
    rounds = draft_timeline.DraftSummary(trace)
    return [rounds.add(step) for step in trace.steps]


def test_the_figures_add_up(sampled):
    steps, last = sampled.steps, shown(sampled)[-1]
    numbers = last["figures"]
    assert numbers["rounds"] == len(steps)
    assert numbers["tokens_per_target_pass"] == pytest.approx(30 / len(steps))
    assert numbers["draft_passes"] == sum(step.detail.draft_length for step in steps)
    # The draft is the target itself, so whatever it proposed was right.
    assert numbers["acceptance_rate"] == 1
    assert numbers["tokens_per_s"] == pytest.approx(30 / steps[-1].elapsed_s)
    draft_s, verify_s = numbers["draft_s"], numbers["verify_s"]
    assert numbers["draft_share"] == pytest.approx(draft_s / (draft_s + verify_s))
    assert numbers["target_pass_s"] == pytest.approx(verify_s / len(steps))
    report, plain = steps[-1].detail.report, last["plain"]
    assert plain["token_s"] == pytest.approx(report.plain_s / report.plain_tokens)
    assert plain["tokens_per_s"] == pytest.approx(report.plain_tokens / report.plain_s)
    assert sum(kept for kept, *_ in last["places"]) == sum(s["accepted"] for s in shown(sampled))


def timed(trace, **changes):
    """Return what a run of 4 tokens a target pass shows of its speed when this was measured of it."""
    step, rounds = trace.steps[-1], draft_timeline.DraftSummary(trace)
    assert len(trace.outputs[0].token_ids) / len(trace.steps) > 4
    quiet = {"plain_tokens": 30, "plain_s": 3.0, "others": 0, "processor_share": 1.0}
    report = dataclasses.replace(step.detail.report, **{**quiet, **changes})
    detail = dataclasses.replace(step.detail, report=report)
    last = dataclasses.replace(step, detail=detail, elapsed_s=1.0)
    return [rounds.add(step) for step in (*trace.steps[:-1], last)][-1]["plain"]


def test_a_speed_up_is_that_of_two_undisturbed_timings(sampled):
    quiet = timed(sampled)
    assert (quiet["speed_up"], quiet["why"]) == (pytest.approx(3.0), "")
    # A file from before anybody looked is taken at its word.
    assert timed(sampled, others=None, processor_share=None)["speed_up"] == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"others": 1}, "other runs were going on"),
        ({"processor_share": 0.5}, "the processor was busy with other work"),
        # 9 times as fast as plain decoding, with hardly more than 4 tokens a target pass.
        ({"plain_s": 9.0}, draft_timeline.IMPOSSIBLE_SPEED_UP),
    ],
)
def test_a_speed_up_that_means_nothing_is_not_shown(sampled, changes, why):
    plain = timed(sampled, **changes)
    assert (plain["speed_up"], plain["why"]) == (None, why)


def test_on_another_device_the_thread_may_wait(sampled):
    model = dataclasses.replace(sampled.model, device="cuda:0")
    elsewhere = dataclasses.replace(sampled, model=model)
    assert timed(elsewhere, processor_share=0.1)["speed_up"] == pytest.approx(3.0)


@pytest.mark.nightly
def test_no_recorded_run_claims_more_than_its_passes_gave():
    told = 0
    for entry in gallery.list_entries():
        trace = gallery.open_entry(entry.file)
        last = shown(trace)[-1]
        if last is None:
            continue
        most = last["figures"]["tokens_per_target_pass"]
        claims = [last["figures"]["expected_speed_up"], (last["plain"] or {}).get("speed_up")]
        assert all(claim is None or claim <= most for claim in claims), entry.file
        told += sum(claim is not None for claim in claims)
    assert told > 4


def test_only_the_last_round_knows_of_a_plain_run(sampled):
    assert [values["plain"] is None for values in shown(sampled)[:-1]] == [True] * (
        len(sampled.steps) - 1
    )


def test_what_was_never_judged_counts_neither_way(rejected):
    details = [step.detail for step in rejected.steps]
    statuses = [token.status for detail in details for token in detail.tokens]
    assert set(statuses) == {"accepted", "rejected", "unverified"}
    last = shown(rejected)[-1]
    accepted, judged = (sum(place[i] for place in last["places"]) for i in range(2))
    for kept, count, share in last["places"]:
        assert share == pytest.approx(kept / count)
    assert accepted == statuses.count("accepted")
    assert judged == accepted + statuses.count("rejected")
    numbers = last["figures"]
    assert numbers["acceptance_rate"] == pytest.approx(accepted / judged)
    assert numbers["accepted_per_round"] == pytest.approx(accepted / len(details))
    asked = sum(detail.requested_length for detail in details)
    assert numbers["draft_passes"] == sum(d.draft_forwards for d in details) < asked
    assert last["plain"] is None


def test_every_round_shows_what_had_come_until_then(rejected):
    for count, values in enumerate(shown(rejected), start=1):
        steps = rejected.steps[:count]
        tokens = [token for step in steps for token in step.detail.tokens]
        written = sum(len(step.emit) for step in steps)
        assert values["figures"]["rounds"] == count
        assert values["pace"] == pytest.approx(written / count)
        assert values["most"] >= max(step.detail.requested_length for step in steps)
        kept = [token.status for token in steps[-1].detail.tokens].count("accepted")
        assert values["accepted"] == kept
        assert sum(judged for _, judged, _ in values["places"]) == sum(
            token.status != "unverified" for token in tokens
        )


def test_a_mixture_is_shown_with_its_own_ratio():
    token = DraftToken(3, 0.2, 0.4, 0.6, "accepted")
    assert draft_timeline.mixture_probability(token, 0.5) == pytest.approx(0.3)
    assert draft_timeline.acceptance_ratio(token, 0.5) == pytest.approx(0.75)
    assert draft_timeline.mixture_probability(token, None) is None
    certain = DraftToken(3, 0.8, 0.4, 0.6, "accepted")
    assert draft_timeline.acceptance_ratio(certain) == 1
    assert draft_timeline.acceptance_ratio(DraftToken(3, 0.8, None, None, "accepted")) is None


@pytest.mark.parametrize(
    ("rate", "length", "cost", "expected"),
    [(0.0, 5, 0.0, 1.0), (1.0, 4, 0.25, 4.0), (0.8, 5, 0.0, 3.68928)],
)
def test_the_papers_formula(rate, length, cost, expected):
    assert draft_timeline.expected_speed_up(rate, length, cost) == pytest.approx(expected, abs=1e-4)


def test_a_trace_without_drafts_has_no_rounds():
    plain = finish("greedy", {"max_new_tokens": 3})
    assert shown(plain) == [None] * 3


@pytest.mark.parametrize(
    ("values", "same"), [((), None), ((0.4, 0.02), True), ((0.4, 1e-4), False)]
)
def test_the_least_p_value_decides_whether_distributions_are_the_same(sampled, values, same):
    step = sampled.steps[-1]
    checks = tuple(DistributionCheck(1, 10, 1.0, 3, value, ()) for value in values)
    report = dataclasses.replace(step.detail.report, distributions=checks)
    changed = dataclasses.replace(step, detail=dataclasses.replace(step.detail, report=report))
    rounds = draft_timeline.DraftSummary(sampled)
    assert [rounds.add(step) for step in (*sampled.steps[:-1], changed)][-1]["same"] is same
