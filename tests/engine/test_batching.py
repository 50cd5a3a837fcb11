"""Runs that share forward passes: each decides as it does alone, whoever comes, goes, fails or is slow."""

from __future__ import annotations

import dataclasses

import pytest
import torch

import engine.run.run
from engine import DecodeRequest, LoadedModel, decode, load
from engine.loops import rows, tolerance
from engine.models import slots
from engine.run import batching, turn_taking
from engine.run.scheduler import RUN_QUEUE
from engine.trace.events import Failed, StepRecorded, Waiting
from tests.helpers.gates import gate
from tests.helpers.models import fresh_model, tiny_llama
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.runs import trace_of_run
from tests.helpers.zoo import zoo_model

ASKED = (
    ("greedy", {}),
    ("sampling", {"top_k": 20, "temperature": 1.4}),
    ("sampling", {"top_k": 0, "top_p": 0.8, "num_return_sequences": 2}),
    ("watermark", {"bias": 4.0}),
    ("watermark", {"seeding_scheme": "selfhash"}),
    ("sampling", {"min_p": 0.02, "repetition_penalty": 1.3, "no_repeat_ngram_size": 3}),
    ("sampling", {"typical_p": 0.7}),
)
"""The last and selfhash are decided apart: what their scores go through is not looked at."""


@pytest.fixture
def most(monkeypatch):
    """Return what sets how many texts may grow side by side."""

    def set_to(number):
        now = dataclasses.replace(batching.SETTINGS, max_shared_runs=number)
        for module in (turn_taking, batching, engine.run.run):
            monkeypatch.setattr(module, "SETTINGS", now)

    set_to(8)
    return set_to


def model(seed=3, **settings):
    return LoadedModel(tiny_llama(2, seed=seed, eos_token_id=None, **settings))


def requests(loaded, asked=ASKED, tokens=24):
    return [
        DecodeRequest(
            name,
            loaded,
            input_ids=[5 + i, 9, 11, 4, 20, 7][: 2 + i % 4],
            params={"max_new_tokens": tokens - 2 * i, **params},
            seed=i,
        )
        for i, (name, params) in enumerate(asked)
    ]


def alone(asked):
    """Return the traces of runs that were made one after the other."""
    return [trace_of_run(decode(request)) for request in asked]


def together(loaded, asked):
    """Return the traces of runs of which nobody begins before all have come, and how many passes they took."""
    with gate(loaded.model, free=0) as held:
        runs = [decode(request) for request in asked]
        held.wait()
        comes_true(lambda: len(RUN_QUEUE._inside) == len(asked))
        held.open()
        traces = [trace_of_run(run) for run in runs]
    return traces, held.passes


def tokens(trace):
    return [output.token_ids for output in trace.outputs]


def test_every_run_gets_the_tokens_that_it_gets_alone(most):
    loaded = model()
    asked = requests(loaded)
    expected = alone(asked)
    found, passes = together(loaded, asked)
    for one, other in zip(expected, found, strict=True):
        assert tokens(one) == tokens(other), one.config
        assert len(one.steps) == len(other.steps)
        for a, b in zip(one.steps, other.steps, strict=True):
            assert [c.token_id for c in a.candidates] == [c.token_id for c in b.candidates]
            assert [c.removed_by for c in a.candidates] == [c.removed_by for c in b.candidates]
            assert a.logsumexp == pytest.approx(b.logsumexp, abs=2e-5)
    assert sum(rows.SHARED_PASSES_NOTE in trace.notes for trace in found) == 5
    assert not any(rows.SHARED_PASSES_NOTE in trace.notes for trace in expected)
    # What is decided apart makes its own passes; of the others, nearly every one goes along.
    own = sum(trace.config["max_new_tokens"] for trace in (expected[4], expected[6]))
    assert passes < own + 24 + 7 + 20, passes


def test_a_run_alone_is_made_as_ever_and_in_the_same_passes(most):
    loaded = model()
    [request] = requests(loaded, ASKED[1:2])
    with gate(loaded.model, free=10**6) as counted:
        [trace] = alone([request])
    assert counted.passes == 24
    assert not trace.notes
    most(1)
    [usual] = alone([request])
    timeless = [dataclasses.replace(step, elapsed_s=0) for step in trace.steps]
    assert timeless == [dataclasses.replace(step, elapsed_s=0) for step in usual.steps]


def test_one_joins_between_two_passes_and_one_leaves(most):
    loaded = model()
    asked = requests(loaded, ASKED[:4], tokens=40)
    expected = alone(asked)
    with gate(loaded.model, free=9) as held:
        first = decode(asked[0])
        held.wait()  # in the middle of its text
        others = [decode(request) for request in asked[1:]]
        comes_true(lambda: len(RUN_QUEUE._inside) == 4)
        others[0].cancel()
        held.open()
        *_, stopped = others[0]
        found = [trace_of_run(first), *(trace_of_run(run) for run in others[1:])]
    assert [tokens(t) for t in found] == [tokens(expected[i]) for i in (0, 2, 3)]
    assert stopped.trace.outputs[0].finish_reason == "cancelled"
    assert len(stopped.trace.steps) <= 2


def test_a_step_in_doubt_is_decided_by_passes_alone(most, monkeypatch):
    loaded = model()
    asked = requests(loaded, ASKED[:4])
    expected = alone(asked)
    monkeypatch.setattr(tolerance, "may_change_decision", lambda *_: True)
    # Passes that are off by more than any rounding: each of these steps has to be made again.
    usual = slots.Slots.read_tokens
    noisy = torch.Generator().manual_seed(0)

    def off(self, tokens):
        logits = usual(self, tokens)
        return logits + torch.randn(logits.shape, generator=noisy)

    slots.measure_margin(loaded)
    monkeypatch.setattr(slots.Slots, "read_tokens", off)
    found, _ = together(loaded, asked)
    for one, other in zip(expected, found, strict=True):
        assert tokens(one) == tokens(other)
        assert rows.RECOMPUTED_NOTE in other.notes
    timeless = [dataclasses.replace(step, elapsed_s=0) for step in found[1].steps]
    assert timeless == [dataclasses.replace(step, elapsed_s=0) for step in expected[1].steps]


def test_where_a_shared_pass_fails_each_continues_alone(most, monkeypatch):
    loaded = model()
    asked = requests(loaded, ASKED[:4])
    expected = alone(asked)
    usual, count = slots.Slots.read_tokens, []

    def fails(self, tokens):
        count.append(len(tokens))
        if len(count) > 4 + slots._PROBE_STEPS:
            raise torch.OutOfMemoryError("no room")
        return usual(self, tokens)

    monkeypatch.setattr(slots.Slots, "read_tokens", fails)
    found, _ = together(loaded, asked)
    assert [tokens(t) for t in expected] == [tokens(t) for t in found]
    assert len(count) == 5 + slots._PROBE_STEPS
    assert not slots.can_share_passes(loaded)


def test_one_that_fails_takes_nobody_along(most, monkeypatch):
    loaded = model()
    asked = requests(loaded, ASKED[:3])
    expected = alone(asked)
    usual = rows.Rows.append

    def breaks(own, tokens, columns):
        if len(tokens) == 2 and own.forward.passes == 7:
            raise ValueError("a defect of one run")
        usual(own, tokens, columns)

    monkeypatch.setattr(rows.Rows, "append", breaks)
    with gate(loaded.model, free=0) as held:
        runs = [decode(request) for request in asked]
        comes_true(lambda: len(RUN_QUEUE._inside) == 3)
        held.open()
        *_, broken = runs[2]
        found = [trace_of_run(run) for run in runs[:2]]
    assert isinstance(broken, Failed)
    assert len(broken.trace.steps) == 12
    assert [tokens(t) for t in found] == [tokens(t) for t in expected[:2]]


def test_a_visitor_who_does_not_read_holds_up_nobody(most):
    loaded = model(max_position_embeddings=512)
    asked = requests(loaded, ASKED[:2], tokens=300)
    with gate(loaded.model, free=0) as held:
        idle, read = [decode(request) for request in asked]
        comes_true(lambda: len(RUN_QUEUE._inside) == 2)
        held.open()
        assert len(tokens(trace_of_run(read))[0]) == 298
    assert sum(isinstance(event, StepRecorded) for event in idle) == 300


def test_a_run_that_wants_the_model_for_itself_is_not_overtaken_for_ever(most):
    loaded = model()
    asked = requests(loaded, ASKED[:2] * 2)
    beams = DecodeRequest(
        "beam_search", loaded, input_ids=[5, 9], params={"max_new_tokens": 4, "num_beams": 2}
    )
    with gate(loaded.model, free=3) as held:
        first = decode(asked[0])
        held.wait()
        searching = decode(beams)
        told = next(searching)
        assert isinstance(told, Waiting)
        later = [decode(request) for request in asked[1:]]
        positions = [next(run).position for run in later]
        assert positions == [2, 3, 4], positions
        ended = []
        held.open()
        for name, run in (("first", first), ("beams", searching)):
            trace_of_run(run)
            ended.append((name, [run._thread.is_alive() for run in later]))
        traces = [trace_of_run(run) for run in later]
    assert [tokens(t) for t in traces] == [tokens(t) for t in alone(asked[1:])]


def test_more_than_there_is_room_for_wait(most):
    most(2)
    loaded = model()
    asked = requests(loaded, ASKED[:2] * 2)
    with gate(loaded.model, free=0) as held:
        runs = [decode(request) for request in asked]
        comes_true(lambda: len(RUN_QUEUE._tickets) == 4)
        held.wait()
        comes_true(
            lambda: sum(place.state == turn_taking.RUNNING for place in RUN_QUEUE._tickets) == 2
        )
        assert sum(place.state == turn_taking.RUNNING for place in RUN_QUEUE._tickets) == 2
        held.open()
        traces = [trace_of_run(run) for run in runs]
    assert [tokens(t) for t in traces] == [tokens(t) for t in alone(asked)]


@pytest.mark.parametrize(
    "loaded",
    [
        zoo_model("Mamba"),
        LoadedModel(fresh_model("t5")),
        LoadedModel(tiny_llama(2, kind="Mistral", sliding_window=8)),
        LoadedModel(tiny_llama(2).to(torch.bfloat16)),
    ],
    ids=["state", "encoder", "window", "half"],
)
def test_models_that_cannot_share_do_not(loaded, most):
    assert not slots.can_share_passes(loaded)
    with gate(loaded.model, free=1) as held:
        runs = [decode(r) for r in requests(loaded, ASKED[:2], tokens=6)]
        held.wait()
        assert sum(place.state == turn_taking.RUNNING for place in RUN_QUEUE._tickets) == 1
        held.open()
        for run in runs:
            trace_of_run(run)


def test_a_model_whose_rows_disturb_each_other_shares_nothing(most, monkeypatch):
    loaded = model()
    usual = slots.Slots.read_tokens
    monkeypatch.setattr(slots.Slots, "read_tokens", lambda self, t: usual(self, t) + 1e-2)
    asked = requests(loaded, ASKED[:3])
    found, _ = together(loaded, asked)
    assert [tokens(t) for t in found] == [tokens(t) for t in alone(asked)]
    assert not any(rows.SHARED_PASSES_NOTE in trace.notes for trace in found)
    assert slots.measure_margin(loaded) is None


@pytest.mark.nightly
def test_nothing_is_left_behind(most):
    loaded = model()
    for _ in range(3):
        together(loaded, requests(loaded))
    assert not batching._BATCHES
    assert not RUN_QUEUE._tickets
    assert loaded.lock.acquire(timeout=PATIENCE_S)
    loaded.lock.release()


@pytest.mark.nightly
def test_the_embedded_model_agrees_with_itself(most):
    loaded = load("storyteller")
    asked = [
        DecodeRequest(
            "sampling",
            loaded,
            prompt=prompt,
            params={"max_new_tokens": 40, "temperature": 0.8 + 0.2 * i},
            seed=i,
        )
        for i, prompt in enumerate(
            ("Once upon a time", "Tom and his mom were in the kitchen.", "One")
        )
    ]
    expected = alone(asked)
    found, _ = together(loaded, asked)
    assert [tokens(t) for t in expected] == [tokens(t) for t in found]
    assert [t.outputs[0].text for t in expected] == [t.outputs[0].text for t in found]
