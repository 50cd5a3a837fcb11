"""What is counted of runs is what their traces say, however they end."""

from __future__ import annotations

import json
import threading
import weakref

import pytest

from engine import DecodeRequest, decode
from engine.errors import BusyError, Cancelled, DecodeError, StoppedError
from engine.run import decoding, run_counters
from engine.run.run import Run
from engine.run.run_counters import CountedRun, Counts, Histogram, ReplicaReports
from engine.run.scheduler import RUN_QUEUE
from engine.trace.events import Finished, Loading, StepRecorded, Waiting

STORY = "Once upon a time"


def request(strategy="greedy", **params):
    return DecodeRequest(strategy, prompt=STORY, params={"max_new_tokens": 8, **params})


@pytest.fixture
def counts(monkeypatch):
    """Return the numbers of what is decoded in this test alone."""
    own = Counts()

    def counting(strategy, make, send, cancelled):
        return CountedRun(strategy, make, send, cancelled, own)

    monkeypatch.setattr(decoding, "CountedRun", counting)
    return own


def raising(error, events=()):
    """Return what makes a job that sends events and raises."""

    class Broken:
        def __init__(self, send, cancelled):
            self.send = send

        def execute(self):
            for event in events:
                self.send(event)
            raise error

        def partial_trace(self):
            return None

    return Broken


def test_the_numbers_are_those_of_the_traces(counts):
    traces = []
    for one in (request(), request(), request("beam_search", num_beams=3)):
        *_, last = decode(one)
        traces.append(last.trace)
    found = counts.values()
    assert found["begun"] == {"greedy": 2, "beam_search": 1}
    assert found["ended"] == {"greedy": {"finished": 2}, "beam_search": {"finished": 1}}
    assert (found["waiting"], found["going"], found["failures"]) == (0, 0, {})
    for name in ("greedy", "beam_search"):
        own = [trace for trace in traces if trace.strategy == name]
        tokens = sum(len(output.token_ids) for trace in own for output in trace.outputs)
        assert found["tokens"][name] == tokens > 0
        assert found["decoding_s"][name] == pytest.approx(sum(t.timing.total_s for t in own))
    for name in ("queue_s", "load_s", "first_token_s"):
        values = [getattr(trace.timing, name) for trace in traces]
        assert found[name]["total"] == pytest.approx(sum(values))
        assert sum(found[name]["counts"]) == 3


def test_a_run_that_is_stopped_counts_as_cancelled_with_what_it_wrote(counts):
    run = decode(request(max_new_tokens=400))
    for event in run:
        if isinstance(event, StepRecorded):
            run.cancel()
        last = event
    assert isinstance(last, Finished)
    found = counts.values()
    assert found["ended"] == {"greedy": {"cancelled": 1}}
    assert found["tokens"] == {"greedy": len(last.trace.outputs[0].token_ids)}


def test_a_run_that_nobody_follows_any_more_counts_what_it_wrote(counts):
    run = decode(request(max_new_tokens=400))
    next(event for event in run if isinstance(event, StepRecorded))
    run.close()
    assert run.join(60)
    found = counts.values()
    assert found["ended"] == {"greedy": {"cancelled": 1}}
    assert found["tokens"]["greedy"] >= 1
    assert (found["waiting"], found["going"], found["failures"]) == (0, 0, {})


def test_while_it_waits_and_goes_a_run_is_counted_so(counts):
    seen = []
    with RUN_QUEUE.open_ticket(threading.Event(), seen.append) as place:
        place.wait_to_load()
        with place.acquire_turn():
            run = decode(request())
            assert isinstance(next(run), Waiting | Loading)
            assert (counts.values()["waiting"], counts.values()["going"]) == (1, 0)
            assert RUN_QUEUE.count_tickets() == (1, 1)
    next(event for event in run if isinstance(event, StepRecorded))
    list(run)
    assert (counts.values()["waiting"], counts.values()["going"]) == (0, 0)


@pytest.mark.parametrize(
    ("error", "outcome", "failures"),
    [
        (BusyError("full"), "failed", {"busy": 1}),
        (DecodeError("broke"), "failed", {"decode": 1}),
        (ValueError("of somebody else"), "failed", {"internal": 1}),
        (StoppedError("stopped"), "cancelled", {}),
        (Cancelled(), "cancelled", {}),
    ],
)
def test_a_run_that_fails_is_counted_by_the_kind_of_its_error(error, outcome, failures):
    own = Counts()
    job = CountedRun("greedy", raising(error), lambda event: None, threading.Event(), own)
    with pytest.raises(type(error)):
        job.execute()
    found = own.values()
    assert found["ended"] == {"greedy": {outcome: 1}}
    assert found["failures"] == failures
    assert (found["waiting"], found["going"]) == (0, 0)
    told = job.log_fields()
    assert (told["strategy"], told["outcome"]) == ("greedy", outcome)
    assert told.get("code") == next(iter(failures), None)


def test_a_name_that_a_request_made_up_is_no_name_of_a_number(counts):
    list(decode(DecodeRequest("PLAYGROUND\nsecret", prompt=STORY)))
    assert counts.values()["begun"] == {run_counters.OTHER_STRATEGY: 1}
    assert counts.values()["failures"] == {"parameter": 1}


def test_a_failed_run_is_counted_with_what_it_wrote_once(counts, monkeypatch):
    monkeypatch.setattr(Run, "_finish_reason", lambda *_: 1 / 0)
    *_, last = decode(request())
    assert counts.values()["tokens"] == {"greedy": len(last.trace.outputs[0].token_ids)}
    assert counts.values()["failures"] == {"internal": 1}
    assert sum(counts.values()["first_token_s"]["counts"]) == 1


def test_a_record_is_free_as_soon_as_its_run_is():
    """Without waiting for Python to look for circles."""
    made = []

    def make(send, cancelled):
        run = raising(Cancelled())(send, cancelled)
        made.append(weakref.ref(run))
        return run

    job = CountedRun("greedy", make, lambda event: None, threading.Event(), Counts())
    del job
    assert made[0]() is None


def test_a_histogram_has_every_value_in_one_place():
    seconds = Histogram()
    for value in (0.0, 0.01, 0.011, 299.0, 300.0, 301.0):
        seconds.add(value)
    found = seconds.values()
    assert len(found["counts"]) == len(found["bounds"]) + 1
    assert found["counts"][:2] == [2, 1]
    assert found["counts"][-2:] == [2, 1]
    assert found["total"] == pytest.approx(900.021)


def test_a_snapshot_is_plain_values():
    found = run_counters.snapshot()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert set(Counts().values()) < set(found)
    assert found["memory_bytes"] is None or found["memory_bytes"] > 1e7


def test_a_replica_that_is_silent_is_forgotten():
    now = [0.0]
    reports = ReplicaReports(lambda: now[0])
    reports.add("b", {"going": 1})
    now[0] = 50.0
    reports.add("a", {"going": 0})
    assert list(reports.recent()) == ["a", "b"]
    now[0] = 70.0
    assert reports.recent() == {"a": {"going": 0}}
