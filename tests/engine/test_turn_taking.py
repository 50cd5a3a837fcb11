"""Runs of different addresses take turns between two steps, and each decides as it does alone."""

from __future__ import annotations

import dataclasses
import itertools
import os
import select
import threading
import time
from contextlib import contextmanager

import pytest

from engine import DecodeRequest, LoadedModel
from engine.models.module_state import ModuleState
from engine.run import turn_taking
from engine.run.jobs import stop_all_jobs
from engine.run.scheduler import RUN_QUEUE, RunQueue
from engine.run.visitor import NO_VISITOR, Visitor
from engine.sandbox.sandbox_main import wait_while_paused
from engine.sandbox.wire import pack_message
from engine.settings import SETTINGS
from engine.timing_noise import NoiseMonitor, Work
from engine.trace.events import StepRecorded
from tests.helpers.gates import gate
from tests.helpers.models import fresh_model, golden_model
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.paused_run import paused_run
from tests.helpers.queue import queue_states
from tests.helpers.runs import decode_as, finished, trace_of_run, without_time
from tests.helpers.strategies import OURS, make
from tests.helpers.visitors import FIRST, SECOND, asking_as
from tests.helpers.zoo import zoo_model

_PASSES = itertools.count()
THIRD = Visitor("192.0.2.3", "page")


@pytest.fixture(autouse=True)
def _every_step(monkeypatch):
    """Let a turn be over after every step, so that no order depends on the clock."""
    monkeypatch.setattr(turn_taking, "TURN_S", 0.0)


def exactly(tokens):
    return {"max_new_tokens": tokens, "min_new_tokens": tokens}


def interrupted(long, short, visitors=(FIRST, SECOND)):
    """Return the traces of a run and of one that comes while it computes, and the order of their passes."""
    model = long.model.model
    with gate(model, free=2) as held, hooked(model) as order:
        first = decode_as(visitors[0], long)
        held.wait()
        second = decode_as(visitors[1], short)
        comes_true(lambda: turn_taking.READY in queue_states())
        held.open()
        traces = trace_of_run(first), trace_of_run(second)
    return *traces, order


@contextmanager
def hooked(model):
    """Yield a list that every forward pass adds to: the thread, and how many passes came before."""
    passes = []
    hook = model.register_forward_pre_hook(
        lambda *_: passes.append((next(_PASSES), threading.get_ident()))
    )
    yield passes
    hook.remove()


def changes(order):
    threads = [thread for _, thread in order]
    return sum(one != other for one, other in itertools.pairwise(threads))


@pytest.mark.by_day("sampling", "speculative")
@pytest.mark.parametrize("name", OURS)
def test_each_run_is_what_it_is_alone(name):
    long = make(name, max_new_tokens=16)
    short = make("beam_search", seed=2, max_new_tokens=6, num_beams=3)
    short = dataclasses.replace(short, model=long.model)
    alone = [without_time(finished(request)) for request in (long, short)]
    first, second, order = interrupted(long, short)
    assert [without_time(first), without_time(second)] == alone
    assert changes(order) >= 4, "they took turns"


@pytest.mark.parametrize("name", ["greedy", "beam_sampling"])
def test_a_short_run_that_shares_passes_interrupts_a_search(name):
    long = make("beam_search", max_new_tokens=30, num_beams=4, length_penalty=0.0)
    short = make(name, seed=3, max_new_tokens=6)
    alone = [without_time(finished(request)) for request in (long, short)]
    first, second, order = interrupted(long, short)
    assert [without_time(first), without_time(second)] == alone
    assert changes(order) >= 4


def test_runs_of_one_address_wait_for_each_other():
    long, short = make("beam_search", max_new_tokens=16), make("dola", max_new_tokens=4)
    for visitors in ((FIRST, Visitor(FIRST.address, "other")), (NO_VISITOR, NO_VISITOR)):
        *_, order = interrupted(long, short, visitors)
        assert changes(order) == 1


def test_a_batch_pauses_as_a_whole_and_takes_in_who_came_meanwhile():
    model = LoadedModel(fresh_model("llama"))
    asked = [
        DecodeRequest(
            "sampling", model, input_ids=[5, 9 + n], seed=n, params={"max_new_tokens": 24}
        )
        for n in range(3)
    ]
    search = DecodeRequest(
        "beam_search", model, input_ids=[7, 3], params={"max_new_tokens": 6, "num_beams": 3}
    )
    alone = [without_time(finished(request))[1] for request in (*asked, search)]
    with gate(model.model, free=0) as held:
        runs = [decode_as(visitor, asked[n]) for n, visitor in enumerate((FIRST, SECOND))]
        held.wait()
        comes_true(lambda: queue_states().count(turn_taking.RUNNING) == 2)
        between = decode_as(THIRD, search)
        comes_true(lambda: turn_taking.READY in queue_states())
        late = decode_as(Visitor("192.0.2.4"), asked[2])
        held.open()
        found = [trace_of_run(run) for run in (*runs, late, between)]
    assert [without_time(trace)[1] for trace in found] == alone
    assert not RUN_QUEUE._tickets
    assert not model.lock.locked()


def test_a_full_batch_gives_way_to_one_more_of_its_kind():
    model = LoadedModel(fresh_model("llama"))
    full, more = (
        DecodeRequest(
            "sampling",
            model,
            input_ids=[5, 9],
            seed=rows,
            params={"max_new_tokens": 16, "num_return_sequences": rows},
        )
        for rows in (SETTINGS.max_shared_runs, 1)
    )
    alone = [without_time(finished(request)) for request in (full, more)]
    first, second, order = interrupted(full, more)
    assert [without_time(first), without_time(second)] == alone
    assert changes(order) >= 4


def test_a_model_that_keeps_something_of_a_run_serves_no_other_in_between():
    loaded, other = zoo_model("RecurrentGemma"), golden_model("llama")
    ids = [5, 9, 11, 4, 20, 7]
    long, same = (
        DecodeRequest("sampling", loaded, input_ids=ids[:n], params=exactly(8)) for n in (6, 2)
    )
    elsewhere = DecodeRequest("dola", other, input_ids=ids, params={"max_new_tokens": 4})
    alone = [without_time(finished(request)) for request in (long, same, elsewhere)]
    first, second, order = interrupted(long, same)
    assert [without_time(first), without_time(second)] == alone[:2]
    assert changes(order) == 1
    with hooked(other.model) as passes:
        first, second, order = interrupted(long, elsewhere)
    assert [without_time(first), without_time(second)] == [alone[0], alone[2]]
    assert passes[0] < order[-1], "another model can be used meanwhile"


def test_what_passes_leave_in_modules_is_seen():
    for name, keeps in {"Llama": False, "Mamba": False, "RecurrentGemma": True}.items():
        loaded = zoo_model(name)
        request = DecodeRequest("greedy", loaded, input_ids=[5, 9], params={"max_new_tokens": 3})
        finished(request)
        state = ModuleState(loaded.model)
        assert not state.has_changed()
        finished(request)
        assert state.has_changed() == keeps, name


def test_a_paused_run_that_is_stopped_ends_at_the_next_step_of_the_other(monkeypatch):
    with paused_run() as (first, second, at_work):
        # Its turn would otherwise come after the other's, whose turn never ends here.
        monkeypatch.setattr(turn_taking, "TURN_S", float("inf"))
        first.cancel()
        at_work.open()
        trace = trace_of_run(first)
        assert trace.outputs[0].finish_reason == "cancelled"
        assert len(trace.steps) >= 2
        assert trace_of_run(second).outputs[0].finish_reason == "length"


def test_the_end_of_the_process_ends_paused_runs():
    with paused_run() as (first, second, at_work):
        at_work.open()
        stop_all_jobs(PATIENCE_S)
        assert first.join(0)
        assert second.join(0)
        assert trace_of_run(first).steps


def test_a_run_whose_reader_leaves_while_it_is_paused_goes():
    with paused_run() as (first, second, at_work):
        first.close()
        at_work.open()
        assert first.join(PATIENCE_S)
        assert trace_of_run(second).outputs[0].finish_reason == "length"


def test_a_pause_counts_neither_as_time_of_the_run_nor_against_its_limit(monkeypatch):
    clock = FakeClock(monkeypatch)
    with paused_run() as (first, _, at_work):
        clock.skipped = 10_000.0
        at_work.open()
        trace = trace_of_run(first)
    assert trace.outputs[0].finish_reason == "length"
    assert not any("limit" in note for note in trace.notes)
    assert trace.timing.total_s < 5_000 < trace.timing.queue_s


class FakeClock:
    """The clock of the engine, which a test can set forward."""

    def __init__(self, monkeypatch):
        self.skipped, real = 0.0, time.perf_counter
        monkeypatch.setattr(time, "perf_counter", lambda: real() + self.skipped)


@pytest.mark.nightly
def test_a_method_in_another_process_waits_and_its_clock_too():
    long = DecodeRequest(
        "custom",
        "storyteller",
        "Once upon a time",
        seed=3,
        params={"method": "mirostat", "max_new_tokens": 160},
    )
    short = make("dola", max_new_tokens=4)
    alone = [without_time(finished(request)) for request in (long, short)]
    seen = []
    hook = short.model.model.register_forward_pre_hook(lambda *_: seen.append(queue_states()))
    first = decode_as(FIRST, long)
    # Nobody reads on, so the run cannot come to its end.
    assert any(isinstance(event, StepRecorded) for event in first)
    second = decode_as(SECOND, short)
    # It may get its turn before anybody has seen it wait.
    comes_true(lambda: seen or turn_taking.READY in queue_states())
    traces = trace_of_run(first), trace_of_run(second)
    hook.remove()
    assert [without_time(trace) for trace in traces] == alone
    assert turn_taking.PAUSED in seen[0]


def test_a_method_waits_for_the_end_of_a_pause():
    read, write = os.pipe()
    with open(read, "rb") as orders, open(write, "wb", buffering=0) as parent:
        wait_while_paused(orders)  # no pause has begun
        parent.write(pack_message({"pause": True}))
        waiting = threading.Thread(target=wait_while_paused, args=(orders,))
        waiting.start()
        comes_true(lambda: not select.select([orders], [], [], 0)[0])
        assert waiting.is_alive()
        parent.write(pack_message({"pause": False}))
        waiting.join(PATIENCE_S)
        assert not waiting.is_alive()


def queue_with_tickets():
    """Return a queue, and a function that brings a new ticket of a visitor to a state."""
    line = RunQueue()

    @contextmanager
    def ticket(visitor, model, state):
        with asking_as(visitor), line.open_ticket(threading.Event()) as place:
            for next_state in (turn_taking.LOADING, turn_taking.READY, turn_taking.RUNNING):
                if next_state == turn_taking.READY:
                    place.models, place.state = (model,), next_state
                else:
                    assert line.try_advance(place, next_state)
                if next_state == state:
                    break
            yield place

    return line, ticket


def test_turns_go_round_and_few_are_paused_at_one_time():
    line, ticket = queue_with_tickets()
    models = [object() for _ in range(4)]
    with ticket(FIRST, models[0], turn_taking.RUNNING) as a:
        assert not line.pause_turn(a), "nobody waits"
        with ticket(SECOND, models[1], turn_taking.READY) as b:
            assert line.pause_turn(a)
            assert not line.resume_turn(a), "it is the other's turn"
            assert line.try_advance(b, turn_taking.RUNNING)
            with ticket(THIRD, models[2], turn_taking.READY) as c:
                assert line.pause_turn(b)
                assert not line.try_advance(c, turn_taking.RUNNING), "who paused first goes first"
                assert line.resume_turn(a)
                assert line.pause_turn(a)
                assert line.try_advance(c, turn_taking.RUNNING)
                with ticket(Visitor("192.0.2.4"), models[3], turn_taking.READY) as d:
                    assert line.pause_turn(c)
                    assert line.resume_turn(b)
                    assert line.pause_turn(b)
                    assert not line.try_advance(d, turn_taking.RUNNING), "two are paused already"
                    assert line.resume_turn(a)


def test_what_a_run_limits_in_the_process_is_lifted_while_it_is_paused():
    line, ticket = queue_with_tickets()
    said = []
    with ticket(FIRST, object(), turn_taking.RUNNING) as a:
        a.lift_limits = lambda: said.append("lifted") or (lambda: said.append("limited"))
        with ticket(SECOND, object(), turn_taking.READY) as b:
            assert line.pause_turn(a)
            assert line.try_advance(b, turn_taking.RUNNING)
            assert said == ["lifted"]
        assert line.resume_turn(a)
        assert said == ["lifted", "limited"]


def test_a_run_that_ends_while_it_is_paused_changes_no_count_of_the_others():
    line, ticket = queue_with_tickets()
    with Work().track():
        with (
            ticket(FIRST, object(), turn_taking.RUNNING) as a,
            ticket(SECOND, object(), turn_taking.READY),
            a.work.track(),
        ):
            assert NoiseMonitor().most == 2
            assert line.pause_turn(a)
            assert NoiseMonitor().most == 1
        assert NoiseMonitor().most == 1


def test_the_next_run_of_who_computes_lets_others_load_and_go_first():
    line, ticket = queue_with_tickets()
    one, two, three = (object() for _ in range(3))
    with (
        ticket(FIRST, one, turn_taking.RUNNING) as a,
        ticket(FIRST, two, turn_taking.READY) as next_one,
    ):
        assert not line.pause_turn(a), "an address does not wait for itself"
        with ticket(SECOND, three, turn_taking.READY) as b:
            assert line.pause_turn(a)
            assert not line.try_advance(next_one, turn_taking.RUNNING)
            assert line.try_advance(b, turn_taking.RUNNING)


def test_a_run_gives_way_only_where_that_lets_the_other_compute(monkeypatch):
    two = dataclasses.replace(turn_taking.SETTINGS, max_concurrent_runs=2)
    monkeypatch.setattr(turn_taking, "SETTINGS", two)
    line, ticket = queue_with_tickets()
    one, other = object(), object()
    with (
        ticket(FIRST, one, turn_taking.RUNNING) as a,
        ticket(SECOND, other, turn_taking.RUNNING) as b,
        ticket(THIRD, one, turn_taking.READY),
    ):
        assert not line.pause_turn(b), "it does not use the model that is waited for"
        assert line.pause_turn(a)
