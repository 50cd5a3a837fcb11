"""Where a step's record is read after the next pass has begun, the run is the same, and none of its steps is lost."""

import dataclasses

import pytest
import torch

from engine import DecodeRequest, decode, load
from engine.loops import rows
from engine.loops.host_transfer import start_packed_copy
from engine.trace.events import Failed, Finished, StepRecorded
from tests.helpers.gates import gate

PROMPT = "Once upon a time, there was a little"
CASES = {
    "greedy": {"max_new_tokens": 12},
    "ends": {"max_new_tokens": 60, "stop_strings": ["."]},
    "sampling": {"max_new_tokens": 12, "top_k": 50, "num_return_sequences": 3},
    "watermark": {"max_new_tokens": 12},
    "dola": {"max_new_tokens": 12},
}


@pytest.fixture
def late(monkeypatch):
    monkeypatch.setattr(rows, "is_reading_deferred", lambda device: True)


def request(case):
    strategy = "greedy" if case == "ends" else case
    return DecodeRequest(strategy, load("storyteller"), PROMPT, params=CASES[case], seed=5)


def steps_of(events):
    steps = [event.step for event in events if isinstance(event, StepRecorded)]
    return [dataclasses.replace(step, elapsed_s=0.0) for step in steps]


@pytest.mark.by_day("greedy", "ends")
@pytest.mark.parametrize("case", CASES)
def test_the_run_is_the_same(case, monkeypatch):
    plain = list(decode(request(case)))
    monkeypatch.setattr(rows, "is_reading_deferred", lambda device: True)
    with gate(load("storyteller").model, free=10_000) as gated:
        read_late = list(decode(request(case)))
    assert isinstance(read_late[-1], Finished)
    assert steps_of(read_late) == steps_of(plain)
    assert read_late[-1].trace.outputs == plain[-1].trace.outputs
    passes = sum(step.forward_passes for step in steps_of(plain))
    sequences = len(plain[-1].trace.outputs)
    ahead = 1 if passes == max(len(o.token_ids) for o in plain[-1].trace.outputs) else sequences
    assert gated.passes == passes + ahead


def test_a_pass_that_fails_leaves_the_step_before_it(late):
    model = load("storyteller").model

    def fail(*args):
        if len(seen) == 4:
            raise RuntimeError("planted")
        seen.append(args)

    seen: list[object] = []
    hook = model.register_forward_pre_hook(fail)
    try:
        last = list(decode(request("greedy")))[-1]
    finally:
        hook.remove()
    assert isinstance(last, Failed)
    assert last.trace is not None
    assert len(last.trace.steps) == 4


def test_a_run_that_is_left_ends(late):
    run = decode(request("greedy"))
    for event in run:
        if isinstance(event, StepRecorded):
            break
    run.close()
    assert isinstance(list(decode(request("greedy")))[-1], Finished)


def test_ids_and_numbers_arrive_as_they_were():
    columns = {
        "ids": torch.tensor([[2**31 - 1, 7], [0, 16_777_217]]),
        "probability": torch.tensor([[0.1], [1e-38]]),
    }
    found = start_packed_copy(columns)()
    assert found["ids"].tolist() == columns["ids"].tolist()
    assert torch.equal(found["probability"], columns["probability"])
