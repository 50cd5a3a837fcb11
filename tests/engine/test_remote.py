"""A run on replicas, with replicas that do what a test tells them."""

from __future__ import annotations

import dataclasses
import threading
from collections import deque

import pytest

from engine import DecodeRequest, decode, load
from engine.errors import BusyError
from engine.run.jobs import JobStream
from engine.serving import client
from engine.serving.client import RemoteRun
from engine.serving.protocol import ReplicaLost
from engine.settings import SETTINGS
from engine.trace.events import Failed, Finished, RunReplaced, StepRecorded, Waiting
from engine.trace.value_types import SECONDS, is_equal_except
from tests.helpers.patience import PATIENCE_S, wait_for

REQUEST = DecodeRequest("greedy", "storyteller", "Once", params={"max_new_tokens": 10})
LOST, SILENT = ReplicaLost("killed"), None


@pytest.fixture(scope="module")
def events():
    load("storyteller")
    return list(decode(REQUEST))


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(client, "_RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr(client, "_POLL_S", 0.01)


class Script:
    """A replica that sends what it is told to: batches, None for nothing in time, errors to raise."""

    def __init__(self, *says, end=LOST, there=True):
        self.says, self.end, self.there = deque(says), end, there
        self.stopped, self.left = threading.Event(), threading.Event()

    def next_batch(self, within_s):
        said = self.says.popleft() if self.says else self.end
        if isinstance(said, BaseException):
            raise said
        if said is None:
            self.left.wait(0.001)
        return said

    def stop(self):
        self.stopped.set()

    def close(self):
        self.left.set()

    def has_replica(self):
        return self.there


def asked(*scripts):
    """Return what asks one replica after the other, and the last again and again."""
    waiting = deque(scripts)
    return lambda *_: waiting.popleft() if len(waiting) > 1 else waiting[0]


def steps(events):
    return [event.step for event in events if isinstance(event, StepRecorded)]


def unlike(events):
    """Return the events of a run whose third step comes out differently."""
    third = [event for event in events if isinstance(event, StepRecorded)][2]
    other = StepRecorded(dataclasses.replace(third.step, entropy=9.0), third.pieces)
    return [other if event is third else event for event in events]


def test_it_has_the_interface_of_a_run_here(events):
    run = RemoteRun(REQUEST, asked(Script(events)))
    assert isinstance(run, JobStream)
    assert list(run) == events
    assert run.join(PATIENCE_S)
    batches = list(RemoteRun(REQUEST, asked(Script(events[:4], [], events[4:]))).batches(0.0, 1.0))
    assert [event for batch in batches for event in batch] == events


def test_a_lost_replica_is_only_a_pause(events):
    lost = [Script(events[:n]) for n in (0, 3, 5, 2, len(events) - 1)]
    told = list(RemoteRun(REQUEST, asked(*lost, Script(events))))
    assert is_equal_except(steps(told), steps(events), SECONDS)
    assert told[-1].trace.outputs == events[-1].trace.outputs
    assert all(script.left.is_set() for script in lost)


def test_a_silent_replica_is_lost(events, monkeypatch):
    monkeypatch.setattr(client, "_SILENCE_TIMEOUT_S", 0.0)
    told = list(RemoteRun(REQUEST, asked(Script(events[:5], end=SILENT), Script(events))))
    assert is_equal_except(steps(told), steps(events), SECONDS)


def test_another_outcome_is_another_run(events):
    other = unlike(events)
    run = RemoteRun(REQUEST, asked(Script(events[:-1]), Script(other)))
    first = run.run_id
    told = list(run)
    at = next(n for n, event in enumerate(told) if isinstance(event, RunReplaced))
    assert told[at].step == 2
    assert told[at].run_id == run.run_id != first
    assert [e for e in told[:at] if not isinstance(e, Waiting)] == events[:-1]
    assert [e for e in told[at + 1 :] if not isinstance(e, Waiting)] == other


def test_without_a_replica_it_waits_its_turn():
    there = Script(end=SILENT)
    runs = [RemoteRun(REQUEST, asked(there)) for _ in range(2)]
    places = {next(run).position for run in runs}
    assert places == {1, 2}
    for run in runs:
        run.cancel()
        *_, last = run
        assert str(last.error) == "Stopped before it began."


def test_who_never_answers_is_no_hang(monkeypatch):
    monkeypatch.setattr(client, "SETTINGS", dataclasses.replace(SETTINGS, max_unanswered_s=0.05))
    *_, last = RemoteRun(REQUEST, asked(Script(end=SILENT, there=False)))
    assert str(last.error).startswith("No replica has answered for")


def test_a_run_that_gets_no_further_is_given_up(events, monkeypatch):
    monkeypatch.setattr(client, "SETTINGS", dataclasses.replace(SETTINGS, max_unanswered_s=0.05))
    start = events[:2]
    *_, last = RemoteRun(REQUEST, lambda *_: Script(start))
    assert "without getting further" in str(last.error)


def test_a_full_line_is_said_to_who_comes_and_waited_for_by_who_has_begun(events):
    full = BusyError("The queue is full: 3 runs wait already. Try again later.")
    *_, last = RemoteRun(REQUEST, asked(Script(full)))
    assert last.error is full
    *_, last = RemoteRun(REQUEST, asked(Script([Failed(full)])))
    assert last.error is full
    told = list(RemoteRun(REQUEST, asked(Script(events[:5]), Script(full), Script(events))))
    assert is_equal_except(steps(told), steps(events), SECONDS)
    assert isinstance(told[-1], Finished)


def test_a_cancel_reaches_the_replica(events):
    script = Script(events[:5], end=SILENT)
    run = RemoteRun(REQUEST, asked(script))
    while not isinstance(next(run), StepRecorded):
        pass
    run.cancel()
    wait_for(script.stopped)
    script.says.append(events[5:])
    *_, last = run
    assert isinstance(last, Finished)


def test_a_cancel_without_a_replica_keeps_what_was_delivered(events):
    run = RemoteRun(REQUEST, asked(Script(events[:8]), Script(end=SILENT)))
    told = []
    for event in run:
        told.append(event)
        if isinstance(event, Waiting):
            run.cancel()
    trace = told[-1].trace
    assert trace.outputs[0].finish_reason == "cancelled"
    assert trace.steps == tuple(steps(told))


def test_a_visitor_who_leaves_leaves_the_replica(events):
    script = Script(events[:5], end=SILENT)
    run = RemoteRun(REQUEST, asked(script))
    next(run)
    run.close()
    wait_for(script.left)
    assert run.join(PATIENCE_S)


def test_an_abandoned_run_leaves_the_replica(events):
    script = Script(events[:5], end=SILENT)
    run = RemoteRun(REQUEST, asked(script))
    next(run)
    del run
    wait_for(script.left)


@pytest.mark.parametrize(
    "request_",
    [
        DecodeRequest("greedy", "storyteller", "x", params={"top_k": object()}),
        DecodeRequest("greedy", "storyteller", input_ids=object()),
    ],
)
def test_nobody_is_asked_for_what_cannot_be_sent(request_):
    *_, here = decode(request_)
    *_, there = RemoteRun(request_, asked(Script()))
    assert str(there.error) == str(here.error)


def test_an_object_is_refused(events):
    *_, last = RemoteRun(DecodeRequest("greedy", object(), "x"), asked(Script()))
    assert "an object stays in its own process" in str(last.error)
