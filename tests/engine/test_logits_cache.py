"""What is held on to of a run, for how long, and what is known of a run of which nothing was."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from engine import DecodeRequest, decode
from engine.errors import EngineError
from engine.inspection import trace_logits
from engine.inspection.logits_cache import CACHED, RECOMPUTED, RECORDED
from engine.inspection.step_logits import RunNotCachedError, find_logits
from engine.inspection.step_ref import step_ref_in_run
from engine.inspection.trace_logits import run_from_trace
from engine.inspection.what_if import SettingsChange, apply_change, scan_run
from engine.inspection.what_if_report import build_what_if_report
from engine.loops import recorder
from engine.models.loading import load
from engine.trace.details import BeamDetail, DraftDetail
from tests.helpers.asking import foretold, kept, rerun, shelf
from tests.helpers.models import golden_model
from tests.helpers.runs import finished

PROMPT = [1, 5, 6, 7, 5, 6, 7, 8]
VOCAB, FLOAT = 97, 4
STRATEGIES = (
    ("greedy", {}),
    ("sampling", {"num_return_sequences": 3}),
    ("watermark", {}),
    ("dola", {"do_sample": True, "num_return_sequences": 2}),
    ("contrastive_search", {}),
    ("beam_search", {"num_beams": 3}),
    ("diverse_beam_search", {"num_beams": 4, "num_beam_groups": 2}),
    ("prompt_lookup", {}),
)


def request(strategy="sampling", new=10, model="llama", seed=3, **params):
    return DecodeRequest(
        strategy,
        golden_model(model),
        input_ids=PROMPT,
        params={"max_new_tokens": new, **params},
        seed=seed,
    )


@pytest.fixture
def own_shelf(monkeypatch):
    """A shelf that no other test puts anything on."""
    fresh = shelf()
    monkeypatch.setattr(trace_logits, "LOGITS_CACHE", fresh)
    return fresh


@pytest.mark.parametrize(("strategy", "params"), STRATEGIES)
def test_every_step_has_the_logits_it_was_decided_from(strategy, params):
    run = kept(request(strategy, **params))
    assert run.source == CACHED
    for step in run.steps:
        found = step_ref_in_run(run, step.index)
        assert found.logits.dtype == torch.float32
        assert found.logits.shape[1] == VOCAB
        if isinstance(step.detail, BeamDetail):
            continue
        logprobs = torch.log_softmax(found.logits[found.row], -1)
        for candidate in step.candidates:
            assert logprobs[candidate.token_id].item() == pytest.approx(
                candidate.raw_logprob, abs=1e-5
            )
        if not isinstance(step.detail, DraftDetail):
            ids = found.input_ids[found.row].tolist()
            assert ids[: len(PROMPT)] == PROMPT
            assert len(ids) == len(PROMPT) + step.keep
    numbers = [one.number for one in run.passes]
    assert numbers == list(range(len(numbers)))


def test_nothing_is_held_on_to_where_nobody_can_ask(monkeypatch):
    watched = []

    class Looking(recorder.Recorder):
        def __init__(self, *args):
            super().__init__(*args)
            watched.append(self.watch)

    monkeypatch.setattr("engine.run.run.Recorder", Looking)
    finished(request())
    assert watched == [None]
    kept(request())
    assert watched[1] is not None


def test_logits_are_held_and_not_copied():
    on, held = shelf(), []
    run = decode(request(), on.start_writer)
    original = on.append_pass
    on.append_pass = lambda run_id, one: (held.append(one.logits.data_ptr()), original(run_id, one))
    list(run)
    found = on.get(run.run_id)
    assert [one.logits.data_ptr() for one in found.passes][-len(held) :] == held


def test_the_oldest_run_loses_its_place_first():
    size = kept(request("greedy")).count_bytes()
    assert size >= 10 * VOCAB * FLOAT
    on = shelf(most_bytes=int(2.5 * size))
    first, second, third = (kept(request("greedy"), on) for _ in range(3))
    assert first.full
    assert not first.passes
    assert (second.full, third.full) == (False, False)
    assert on.count_bytes() == second.count_bytes() + third.count_bytes() <= 2.5 * size


def test_only_so_many_runs_are_there():
    on = shelf(runs=2)
    runs = [kept(request("greedy"), on) for _ in range(4)]
    assert [run.full for run in runs] == [True, True, False, False]


def test_a_run_larger_than_its_share_keeps_no_logits_and_its_neighbours_theirs():
    small = kept(request("greedy", new=4))
    on = shelf(run_bytes=2 * small.count_bytes())
    neighbour = kept(request("greedy", new=4), on)
    large = kept(request("greedy", new=30), on)
    assert large.full
    assert not large.passes
    assert len(large.steps) > 4
    assert not neighbour.full
    assert on.count_bytes() == neighbour.count_bytes()


def test_a_run_that_lost_its_place_is_forgotten_and_known_by_its_trace(own_shelf):
    run = decode(request("greedy"), own_shelf.start_writer)
    trace = list(run)[-1].trace
    assert find_logits(own_shelf.get(run.run_id), 2).source == CACHED
    own_shelf.get(run.run_id).drop_logits()
    for name in (run.run_id, "nobody"):
        with pytest.raises(RunNotCachedError):
            find_logits(own_shelf.get(name), 2)
    assert find_logits(trace, 2).source == RECORDED


def test_a_cancelled_run_can_be_asked_as_far_as_it_came():
    on = shelf()
    run = decode(request("greedy", new=200), on.start_writer)
    for event in run:
        if type(event).__name__ == "StepRecorded" and event.step.index == 3:
            run.cancel()
    found = on.get(run.run_id)
    assert 4 <= len(found.steps) < 200
    assert scan_run(found, apply_change(found, SettingsChange())).looked == len(found.steps)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("strategy", "params"), STRATEGIES[:5])
def test_recomputed_it_is_what_was_kept(strategy, params, own_shelf):
    run, trace = kept(request(strategy, **params)), finished(request(strategy, **params))
    again = run_from_trace(trace, model=golden_model("llama"))
    assert again.source == RECOMPUTED
    for step in run.steps:
        a, b = step_ref_in_run(run, step.index), step_ref_in_run(again, step.index)
        assert [one.number for one in a.passes] == [one.number for one in b.passes]
        assert torch.allclose(a.logits[a.row], b.logits[b.row], atol=1e-4)
        assert a.input_ids[a.row].tolist() == b.input_ids[b.row].tolist()
        if a.passes[0].contrast is not None:
            assert torch.allclose(
                a.passes[0].contrast[0], b.passes[0].contrast[0], atol=1e-3, equal_nan=True
            )
    assert run_from_trace(trace) is again, "it is computed once"


@pytest.mark.parametrize(
    ("strategy", "params", "other"),
    [
        ("greedy", {}, {"repetition_penalty": 1.5}),
        ("sampling", {"num_return_sequences": 3}, {"temperature": 1.3}),
        ("watermark", {"scheme": "synthid"}, {"temperature": 0.7}),
        ("dola", {"do_sample": True, "num_return_sequences": 2}, {"top_k": 3}),
    ],
)
def test_recomputed_the_first_change_is_that_of_a_rerun(strategy, params, other, own_shelf):
    trace = finished(request(strategy, **params))
    run = run_from_trace(trace, model=golden_model("llama"))
    assert foretold(run, SettingsChange(other)) == rerun(run, request(strategy, **params, **other))
    assert build_what_if_report(
        step_ref_in_run(run, 2), apply_change(run, SettingsChange())
    ).same_luck


def test_a_run_too_large_to_be_computed_whole_has_the_step_that_is_asked(own_shelf, monkeypatch):
    trace = finished(request("sampling", new=20))
    settings = dataclasses.replace(trace_logits.SETTINGS, max_kept_run_bytes=5 * VOCAB * FLOAT)
    monkeypatch.setattr(trace_logits, "SETTINGS", settings)
    run = run_from_trace(trace, 12, model=golden_model("llama"))
    assert (
        build_what_if_report(step_ref_in_run(run, 12), apply_change(run, SettingsChange())).token_id
        == trace.steps[12].emit[0]
    )
    assert not step_ref_in_run(run, 11).passes
    with pytest.raises(EngineError, match="Which step changes first is not known here"):
        scan_run(run, apply_change(run, SettingsChange()))
    assert own_shelf.count_bytes() == 0


@pytest.mark.parametrize("params", [{}, {"num_return_sequences": 2}, {"top_k": 8, "top_p": 0.9}])
def test_without_its_model_a_run_is_its_recorded_candidates(params, own_shelf):
    trace = finished(request("sampling", **params))
    run = run_from_trace(trace)
    assert run.source == RECORDED
    for step in trace.steps:
        found = build_what_if_report(
            step_ref_in_run(run, step.index), apply_change(run, SettingsChange())
        )
        recorded = {c.token_id for c in step.candidates}
        assert found.source == RECORDED
        assert found.same_luck
        assert found.token_id == step.emit[0], "the same noise over the same candidates"
        assert {o.token_id for o in found.options} <= recorded
        assert found.kept <= len(recorded)
        assert found.entropy == pytest.approx(step.entropy)
    colder = SettingsChange({"temperature": 0.05})
    best = max(trace.steps[4].candidates, key=lambda c: c.raw_logprob)
    assert (
        build_what_if_report(step_ref_in_run(run, 4), apply_change(run, colder)).token_id
        == best.token_id
    )


def test_without_candidates_nothing_is_known(own_shelf):
    trace = finished(request("sampling"))
    bare = [dataclasses.replace(step, candidates=()) for step in trace.steps]
    bare[3] = trace.steps[3]
    run = run_from_trace(dataclasses.replace(trace, steps=tuple(bare)))
    assert (
        build_what_if_report(step_ref_in_run(run, 3), apply_change(run, SettingsChange())).token_id
        == trace.steps[3].emit[0]
    )
    with pytest.raises(EngineError, match="run it again to ask"):
        build_what_if_report(step_ref_in_run(run, 4), apply_change(run, SettingsChange()))
    with pytest.raises(EngineError, match="not known without the model"):
        scan_run(run, apply_change(run, SettingsChange()))


def test_another_machines_luck_is_not_taken_for_the_runs_own(own_shelf):
    trace = finished(request("sampling"))
    elsewhere = dataclasses.replace(trace.model, device="xpu")
    run = run_from_trace(dataclasses.replace(trace, model=elsewhere))
    assert not build_what_if_report(
        step_ref_in_run(run, 2), apply_change(run, SettingsChange())
    ).same_luck


def test_a_model_in_memory_is_found_by_its_name(own_shelf):
    loaded = load("storyteller")
    asked = DecodeRequest("greedy", prompt="Once upon a time", params={"max_new_tokens": 6})
    run = run_from_trace(finished(asked))
    assert run.source == RECOMPUTED
    assert run.header.model.revision == loaded.revision


def test_a_strategy_that_nobody_knows_and_a_function_of_ones_own(own_shelf):
    trace = finished(request("sampling"))
    with pytest.raises(EngineError, match="Nothing is known here of the strategy 'magic'"):
        run_from_trace(dataclasses.replace(trace, strategy="magic"))
    own = {**trace.config, "prefix_allowed_tokens_fn": "<callable f>"}
    with pytest.raises(EngineError, match="A Python function decided"):
        run_from_trace(dataclasses.replace(trace, config=own))
