"""One run computes at a time; the others wait in line, may leave it, and are refused when it is full.

The runs are held at gates, so that every order here is one that the test made and the clock has no say.
"""

from __future__ import annotations

import dataclasses
import threading
import time

import pytest
import torch

from engine import DecodeRequest, LoadedModel, decode
from engine.errors import BusyError, Cancelled, StoppedError
from engine.run import scheduler, turn_taking
from engine.run.jobs import stop_all_jobs
from engine.run.progress import format_progress
from engine.run.rate import TransferRate
from engine.run.scheduler import RUN_QUEUE, DurationEstimator, RunQueue
from engine.trace.events import Checking, Failed, Finished, Loading, Started, Waiting
from tests.helpers.gates import gate
from tests.helpers.models import fresh_model
from tests.helpers.patience import PATIENCE_S, wait_for


def request(loaded, **params):
    return DecodeRequest("greedy", loaded, input_ids=[5, 9], params={"max_new_tokens": 4, **params})


@pytest.fixture
def first(monkeypatch):
    """Return a gate at which a run is held that has the permit, and the run; nothing was timed before."""
    monkeypatch.setattr(RUN_QUEUE, "_pace", DurationEstimator())
    loaded = LoadedModel(fresh_model("llama"))
    with gate(loaded.model, free=1) as held:
        run = decode(request(loaded))
        held.wait()
        yield held, run
    assert run.join(PATIENCE_S)


def waiting(run):
    """Return the first thing that a run says, which is that it waits."""
    event = next(run)
    assert isinstance(event, Waiting), event
    return event


def queue_of(count, held):
    """Return runs in line, in their order, and the list that their first passes fill."""
    order, runs = [], []
    for number in range(count):
        loaded = LoadedModel(fresh_model("gpt2"))
        loaded.model.register_forward_pre_hook(lambda *_, n=number: order.append((n, held.passes)))
        runs.append(decode(request(loaded)))
        assert waiting(runs[-1]).position == number + 1
    return runs, order


def test_the_line_is_served_in_its_order_one_run_at_a_time(first):
    held, run = first
    runs, order = queue_of(3, held)
    assert order == []
    held.open()
    for going in (run, *runs):
        *_, last = going
        assert isinstance(last, Finished)
        assert len(last.trace.outputs[0].token_ids) == 4
    assert order == [(number, 4) for number in (0, 1, 2) for _ in range(4)]


def test_a_place_becomes_better_when_somebody_before_it_leaves(first):
    held, _ = first
    runs, order = queue_of(3, held)
    runs[1].cancel()
    assert runs[1].join(PATIENCE_S)
    moved = [event.position for event in waits_until(runs[2], 2)]
    assert moved[-1] == 2
    assert set(moved) <= {2, 3}
    held.open()
    assert [e.position for e in runs[2] if isinstance(e, Waiting)][-1:] in ([], [1], [2])
    assert runs[2].join(PATIENCE_S)
    assert runs[0].join(PATIENCE_S)
    assert {number for number, _ in order} == {0, 2}


def waits_until(run, position):
    """Return what a run says of its place until it is this one."""
    seen = []
    while not seen or seen[-1].position != position:
        seen.append(waiting(run))
    return seen


@pytest.mark.parametrize("stop", ["cancel", "close"])
def test_a_run_that_leaves_the_line_computes_nothing(first, stop):
    loaded = LoadedModel(fresh_model("gpt2"))
    with gate(loaded.model, free=0) as own:
        second = decode(request(loaded))
        waiting(second)
        getattr(second, stop)()
        # The first run is still held: nothing but the stop can end the second.
        assert second.join(PATIENCE_S)
    assert own.passes == 0
    assert not loaded.lock.locked()
    assert len(RUN_QUEUE._tickets) == 1
    if stop == "cancel":
        *_, last = second
        assert isinstance(last, Failed)
        assert isinstance(last.error, StoppedError)
        assert str(last.error) == "Stopped before it began."


def test_a_reader_that_forgets_a_waiting_run_ends_its_wait(first):
    run = decode(request(LoadedModel(fresh_model("gpt2"))))
    waiting(run)
    thread = run._thread
    del run
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert len(RUN_QUEUE._tickets) == 1


def test_a_bad_value_is_answered_without_waiting(first):
    for bad in ({"temperature": 2.0, "top_k": -1}, {"suppress_tokens": [10_000]}):
        *_, last = decode(request(LoadedModel(fresh_model("gpt2")), **bad))
        assert isinstance(last, Failed), bad
        assert "is not allowed" in str(last.error)


def limited(monkeypatch, count):
    full = dataclasses.replace(scheduler.SETTINGS, max_waiting_runs=count)
    monkeypatch.setattr(scheduler, "SETTINGS", full)


@pytest.mark.parametrize(
    ("count", "wait"), [(0, "0 runs wait"), (1, "1 run waits"), (2, "2 runs wait")]
)
def test_a_full_line_takes_nobody(first, monkeypatch, count, wait):
    limited(monkeypatch, count)
    runs, _ = queue_of(count, first[0])
    *_, last = decode(request(LoadedModel(fresh_model("gpt2"))))
    assert isinstance(last, Failed)
    assert isinstance(last.error, BusyError)
    assert str(last.error) == f"The queue is full: {wait} already. Try again later."
    for run in runs:
        run.close()
        assert run.join(PATIENCE_S)


def test_seconds_are_said_once_something_has_been_timed(first):
    held, run = first
    nobody_knows = decode(request(LoadedModel(fresh_model("gpt2"))))
    assert waiting(nobody_knows).expected_s is None
    # A run of 4 tokens took 2 s, so that one of 8 takes 4.
    pace = RUN_QUEUE._pace
    pace.add("mine", 4, 2.0)
    assert pace.estimate("mine", 8) == 4.0
    assert pace.estimate("another", 8) == 2.0, "the median of all, where the kind is not known"
    third = decode(request(LoadedModel(fresh_model("gpt2"))))
    second = waiting(third)
    assert second.position == 2
    assert 2.0 <= second.expected_s <= 4.0
    for other in (nobody_knows, third):
        other.close()
        assert other.join(PATIENCE_S)
    held.open()
    assert isinstance(list(run)[-1], Finished)
    assert run.join(PATIENCE_S)
    assert len(pace._durations) == 2, (
        "the run that came to its end was timed, those that left were not"
    )


def test_the_clock_of_a_run_starts_when_it_decodes(first, monkeypatch):
    held, run = first
    second = decode(request(LoadedModel(fresh_model("gpt2"))))
    waiting(second)
    held.open()
    *_, last = second
    assert run.join(PATIENCE_S)
    timing = last.trace.timing
    assert timing.queue_s > 0
    assert timing.load_s == 0.0
    assert timing.first_token_s <= timing.total_s + 0.01


def test_a_model_that_is_loading_holds_up_nobody_else(first, monkeypatch):
    held, run = first
    begun, go_on = threading.Event(), threading.Event()

    def load(source, weights):
        del weights
        begun.set()
        wait_for(go_on)
        return LoadedModel(fresh_model("llama"), name=source.name)

    monkeypatch.setattr("engine.run.preparation.resolve_model", lambda *_: None)
    monkeypatch.setattr("engine.run.preparation.load_source", load)
    slow = decode(request("nobody/slow"))
    # The next in line loads while the first computes.
    assert next(slow) == Loading("nobody/slow")
    wait_for(begun)
    third = decode(request(LoadedModel(fresh_model("gpt2"))))
    waiting(third)
    held.open()
    *_, last = third
    assert isinstance(last, Finished), "it waited for somebody else's model"
    assert run.join(PATIENCE_S)
    go_on.set()
    *_, last = slow
    assert isinstance(last, Finished)
    assert last.trace.timing.load_s > 0


def test_a_run_that_is_stopped_does_not_wait_for_its_model(monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr("engine.run.preparation.resolve_model", lambda *_: None)
    monkeypatch.setattr(
        "engine.run.preparation.load_source", lambda source, weights: wait_for(go_on)
    )
    run = decode(request("nobody/slow"))
    assert next(run) == Loading("nobody/slow")
    run.cancel()
    assert run.join(PATIENCE_S)
    go_on.set()
    *_, last = run
    assert isinstance(last.error, StoppedError)
    assert RUN_QUEUE._tickets == []


def test_the_end_of_the_process_ends_those_who_wait(first):
    held, run = first
    runs, _ = queue_of(2, held)
    held.open()
    stop_all_jobs(PATIENCE_S)
    for going in (run, *runs):
        assert going.join(0)
    *_, last = run
    assert last.trace.outputs[0].finish_reason in ("cancelled", "length")


def test_two_may_run_but_not_with_the_same_model(monkeypatch):
    two = dataclasses.replace(scheduler.SETTINGS, max_concurrent_runs=2)
    monkeypatch.setattr(turn_taking, "SETTINGS", two)
    one, other = LoadedModel(object()), LoadedModel(object())
    line, nobody = RunQueue(), threading.Event()
    with (
        line.open_ticket(nobody) as a,
        line.open_ticket(nobody) as b,
        line.open_ticket(nobody) as c,
    ):
        for place, model in ((a, one), (b, one), (c, other)):
            assert line.try_advance(place, turn_taking.LOADING)
            place.models, place.state = (model,), turn_taking.READY
        assert line.try_advance(a, turn_taking.RUNNING)
        assert not line.try_advance(b, turn_taking.RUNNING)
        assert line.try_advance(c, turn_taking.RUNNING), "it waits for a model that it does not use"
        with line.open_ticket(nobody) as d:
            assert not line.try_advance(d, turn_taking.LOADING), "three are inside already"


def test_a_turn_holds_the_locks_of_all_its_models():
    target, draft = LoadedModel(torch.nn.Module()), LoadedModel(torch.nn.Module())
    with RunQueue().open_ticket(threading.Event()) as place:
        place.wait_to_load()
        with place.acquire_turn(target, None, draft, target):
            assert target.lock.locked()
            assert draft.lock.locked()
    assert not target.lock.locked()
    assert not draft.lock.locked()


def test_a_run_that_fails_leaves_the_line():
    def fail(*_):
        raise RuntimeError("of the model")

    loaded = LoadedModel(fresh_model("gpt2"))
    loaded.model.register_forward_pre_hook(fail)
    run = decode(request(loaded))
    *_, last = run
    assert isinstance(last, Failed)
    assert run.join(PATIENCE_S)
    assert RUN_QUEUE._tickets == RUN_QUEUE._inside == []
    assert not loaded.lock.locked()


def test_what_a_listener_raises_ends_the_wait(first):
    def gone(event):
        raise Cancelled

    with RUN_QUEUE.open_ticket(threading.Event(), gone) as place:
        place.wait_to_load()
        with pytest.raises(Cancelled), place.acquire_turn():
            raise AssertionError("it had a turn")
    assert len(RUN_QUEUE._tickets) == 1


def test_every_event_has_its_sentence():
    assert format_progress(Waiting(1, None)) == "Waiting: 1 run before yours"
    assert format_progress(Waiting(2, 14.2)) == "Waiting: 2 runs before yours, about 14 s"
    assert format_progress(Waiting(2, 0.2)) == "Waiting: 2 runs before yours"
    assert format_progress(Loading("storyteller")) == "Loading Storyteller…"
    assert format_progress(Loading("owner/name")) == "Loading owner/name…"
    some = Loading("owner/name", 30_000_000, 300_000_000)
    assert format_progress(some) == "Fetching owner/name: 30 of 300 MB…"
    fast = dataclasses.replace(some, per_s=1.5e6)
    assert format_progress(fast) == "Fetching owner/name: 30 of 300 MB, 1.5 MB/s, 180 s left…"
    less = dataclasses.replace(fast, left_disk=("someone/old",))
    assert format_progress(less).endswith(" s left; someone/old left the disk to make room…")
    two = Loading("owner/name", left_memory=("storyteller", "someone/old"))
    both = "Loading owner/name; Storyteller and someone/old left memory to make room…"
    assert format_progress(two) == both


def test_a_rate_is_reported_once_it_is_sure():
    now = [0.0]
    rate = TransferRate(lambda: now[0])
    told = []
    for seconds, done in ((0.0, 100), (0.2, 600), (1.0, 1100), (2.0, 1100), (4.0, 4100)):
        now[0] = seconds
        told.append(rate.per_second(done))
    assert told == [0.0, 0.0, 1000.0, 500.0, 1000.0]
    assert format_progress(Checking(37, 200, "short runs")) == "Checking 37 of 200: short runs"


def test_nothing_is_said_where_nobody_waits():
    events = list(decode(request(LoadedModel(fresh_model("gpt2")))))
    assert isinstance(events[0], Started)
    assert not any(isinstance(event, Waiting | Loading | Checking) for event in events)


def test_the_more_wait_the_more_seldom_each_of_them_is_reported():
    """Every telling is work that the run at work waits for, so a long line is not told of every move."""
    line, told, all_wait = RunQueue(), [], threading.Event()
    stops = [threading.Event() for _ in range(30)]

    def tell(event):
        told.append(event)
        if len(told) >= len(stops):
            all_wait.set()

    def stand(stop):
        with pytest.raises(Cancelled), line.open_ticket(stop, tell) as place:
            place.wait_to_load()

    never = threading.Event()
    with line.open_ticket(never) as at_work, line.open_ticket(never) as next_one:
        at_work.wait_to_load()
        next_one.wait_to_load()
        others = [threading.Thread(target=stand, args=(stop,)) for stop in stops]
        for thread in others:
            thread.start()
        wait_for(all_wait)
        told.clear()
        began = time.perf_counter()
        for stop, thread in zip(stops, others, strict=True):
            # Whoever leaves moves all behind him.
            stop.set()
            thread.join()
            if stop is stops[15]:
                elapsed, heard = time.perf_counter() - began, len(told)
    assert heard <= len(stops) * (1 + elapsed / scheduler.compute_event_interval(15))
