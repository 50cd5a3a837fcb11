"""One run computes at a time; the others wait in line, may leave it, and are refused when it is full."""

from __future__ import annotations

import dataclasses
import threading
from contextlib import contextmanager

import pytest

from engine import DecodeRequest, LoadedModel, decode
from engine.errors import BusyError
from engine.run import permits
from engine.trace.events import Failed, Finished
from tests.helpers.gates import gate
from tests.helpers.models import fresh_model
from tests.helpers.patience import PATIENCE_S, wait_for


def request(loaded):
    return DecodeRequest("greedy", loaded, input_ids=[5, 9], params={"max_new_tokens": 4})


@pytest.fixture
def first():
    """Return a gate at which a run is held that has the permit, and the run."""
    loaded = LoadedModel(fresh_model("llama"))
    with gate(loaded.model, free=1) as held:
        run = decode(request(loaded))
        held.wait()
        yield held, run
    assert run.join(PATIENCE_S)


@pytest.fixture
def in_line(first, monkeypatch):
    """Return what is set as soon as another run waits."""
    waiting, own = threading.Event(), permits._in_line

    @contextmanager
    def noted():
        with own():
            waiting.set()
            yield

    monkeypatch.setattr(permits, "_in_line", noted)
    return waiting


def test_the_second_run_waits_for_the_first(first, in_line):
    held, run = first
    passes = []
    loaded = LoadedModel(fresh_model("gpt2"))
    loaded.model.register_forward_pre_hook(lambda *_: passes.append(held.passes))
    second = decode(request(loaded))
    wait_for(in_line)
    assert passes == []
    held.open()
    for going in (run, second):
        *_, last = going
        assert isinstance(last, Finished)
        assert len(last.trace.outputs[0].token_ids) == 4
    assert passes == [4] * 4, "it began before the other had ended"


def test_a_run_that_leaves_the_line_computes_nothing(first, in_line):
    loaded = LoadedModel(fresh_model("gpt2"))
    with gate(loaded.model, free=0) as own:
        second = decode(request(loaded))
        wait_for(in_line)
        second.cancel()
        assert second.join(PATIENCE_S)
    assert own.passes == 0
    assert permits._waiting == 0
    assert not loaded.lock.locked()


def test_a_full_line_takes_nobody(first, monkeypatch):
    full = dataclasses.replace(permits.SETTINGS, max_waiting_runs=0)
    monkeypatch.setattr(permits, "SETTINGS", full)
    *_, last = decode(request(LoadedModel(fresh_model("gpt2"))))
    assert isinstance(last, Failed)
    assert isinstance(last.error, BusyError)
    assert "0 runs are waiting" in str(last.error)
