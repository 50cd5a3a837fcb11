"""A run that is made again delivers every step once, and says so where one comes out differently."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from engine import DecodeRequest, decode, load
from engine.errors import BusyError, EngineError, ParameterError
from engine.serving.delivery_log import DeliveryLog, RunMismatch
from engine.trace import json_io
from engine.trace.events import Failed, Finished, Started, StepRecorded, TextDelta
from engine.trace.value_types import SECONDS, is_equal_except
from tests.helpers.strategies import OURS, make

REQUEST = DecodeRequest("sampling", "storyteller", "Once", params={"max_new_tokens": 12}, seed=4)


@pytest.fixture(scope="module")
def events():
    load("storyteller")
    return list(decode(REQUEST))


@pytest.fixture(scope="module")
def others(events):
    return list(decode(REQUEST))


def steps_in(events):
    return [event.step for event in events if isinstance(event, StepRecorded)]


def texts_in(events):
    return [event for event in events if isinstance(event, TextDelta)]


def lost_after(count, events, others, clock=None):
    """Return what is delivered when a run is lost after so many of its events and then made again."""
    repeat = DeliveryLog(clock or (lambda: 0.0))
    delivered = repeat.take_new(events[:count])
    repeat.restart()
    return delivered + repeat.take_new(others)


def test_a_run_that_is_not_lost_comes_as_it_is(events):
    repeat = DeliveryLog()
    assert repeat.take_new(events) == events


def test_wherever_it_is_lost_each_event_is_delivered_once(events, others):
    for count in range(len(events)):
        told = lost_after(count, events, others)
        assert [type(event) for event in told] == [type(event) for event in events]
        assert is_equal_except(steps_in(told), steps_in(events), SECONDS)
        assert texts_in(told) == texts_in(events)
        assert told[-1].trace.outputs == events[-1].trace.outputs
        assert told[-1].trace.steps == tuple(steps_in(told))
        times = [step.elapsed_s for step in steps_in(told)]
        assert times == sorted(times)


def test_a_run_may_be_lost_again_and_again(events, others):
    repeat, told = DeliveryLog(), []
    for count in (3, 1, 8, 8, 5):
        told += repeat.take_new(others[:count])
        repeat.restart()
    told += repeat.take_new(events)
    assert is_equal_except(steps_in(told), steps_in(events), SECONDS)
    assert "5 times" in told[-1].trace.notes[-1]


@pytest.mark.by_day("contrastive_search", "prompt_lookup", "watermark")
@pytest.mark.parametrize("name", OURS)
def test_every_strategy_comes_out_the_same(name):
    first, second = list(decode(make(name))), list(decode(make(name)))
    told = lost_after(len(first) // 2, first, second)
    assert is_equal_except(steps_in(told), steps_in(first), SECONDS)
    assert told[-1].trace.outputs == first[-1].trace.outputs


def test_time_continues_from_the_first_beginning(events, others):
    now = [100.0]
    repeat = DeliveryLog(lambda: now[0])
    delivered = repeat.take_new(events[:8])
    repeat.restart()
    now[0] += 30.0
    delivered += repeat.take_new(others)
    late = [step.elapsed_s for step in steps_in(delivered)][len(steps_in(events[:8])) :]
    own = [step.elapsed_s for step in steps_in(others)][-len(late) :]
    assert [round(a - b, 3) for a, b in zip(late, own, strict=True)] == [30.0] * len(late)
    trace = delivered[-1].trace
    assert trace.timing.total_s == late[-1]
    assert trace.timing.first_token_s == steps_in(events)[0].elapsed_s
    assert trace.metrics["tokens_per_s"] == pytest.approx(12 / late[-1], rel=1e-3)
    json_io.loads(json_io.dumps(trace))


def changed(event):
    return StepRecorded(dataclasses.replace(event.step, entropy=99.0), event.pieces)


@pytest.mark.parametrize("at", [0, 2, 4])
def test_a_step_that_differs_is_found(events, others, at):
    wrong, seen = [], 0
    for event in others:
        is_step = isinstance(event, StepRecorded)
        wrong.append(changed(event) if is_step and seen == at else event)
        seen += is_step
    with pytest.raises(RunMismatch) as found:
        lost_after(len(events) - 1, events, wrong)
    assert found.value.step == at
    assert found.value.events == wrong
    assert DeliveryLog().take_new(wrong) == wrong


def rounded_otherwise(event):
    """Return a step as a pass that is shared may record it: numbers off by a digit, level candidates swapped."""
    step = event.step
    *first, last, end = step.candidates
    off = [dataclasses.replace(c, raw_logprob=c.raw_logprob + 1e-5) for c in (*first, end, last)]
    step = dataclasses.replace(step, candidates=tuple(off), entropy=step.entropy - 1e-5)
    return StepRecorded(step, {**event.pieces, 1023: "level"})


def test_the_last_digits_of_a_shared_pass_are_no_difference(events, others):
    shared = [rounded_otherwise(e) if isinstance(e, StepRecorded) else e for e in others]
    told = lost_after(len(events) // 2, events, shared)
    half = steps_in(events[: len(events) // 2])
    assert steps_in(told)[: len(half)] == half
    assert [step.emit for step in steps_in(told)] == [step.emit for step in steps_in(events)]
    named = [event.pieces for event in told if isinstance(event, StepRecorded)]
    assert named[len(half)][1023] == "level"


def without(events, kind, at):
    found = [number for number, event in enumerate(events) if isinstance(event, kind)][at]
    return events[:found] + events[found + 1 :]


def doubled(events, kind, at):
    found = [number for number, event in enumerate(events) if isinstance(event, kind)][at]
    return events[: found + 1] + events[found:]


@pytest.mark.parametrize("kind", [StepRecorded, TextDelta])
@pytest.mark.parametrize("spoil", [without, doubled])
def test_what_is_missing_or_comes_twice_is_found(events, others, kind, spoil):
    with pytest.raises(RunMismatch):
        lost_after(len(events) - 1, events, spoil(others, kind, 1))


def test_a_run_that_ends_too_early_is_found(events, others):
    short = [*others[:5], others[-1]]
    with pytest.raises(RunMismatch):
        lost_after(len(events) - 1, events, short)


def test_another_model_is_found_before_the_first_step(events, others):
    start = next(event for event in others if isinstance(event, Started))
    model = dataclasses.replace(start.header.model, revision="another")
    foreign = [Started(dataclasses.replace(start.header, model=model))]
    with pytest.raises(RunMismatch) as found:
        lost_after(len(events) - 1, events, foreign)
    assert found.value.step == 0


def test_what_a_journal_kept_is_taken_up(events, others):
    start = next(event for event in events if isinstance(event, Started))
    half = events[: len(events) // 2]
    stored = [json_io.step_from_dict(json_io.step_to_dict(step)) for step in steps_in(half)]
    pieces = {
        i: piece for e in half if isinstance(e, StepRecorded) for i, piece in e.pieces.items()
    }
    repeat = DeliveryLog.from_delivered(start.header, stored, texts_in(half), pieces, began_s=60.0)
    rest = repeat.take_new(others)
    assert is_equal_except(stored + steps_in(rest), steps_in(events), SECONDS)
    assert texts_in(half) + texts_in(rest) == texts_in(events)
    assert rest[-1].trace.timing.total_s > 60.0


def test_what_there_is_makes_a_trace_that_ends_there(events):
    repeat = DeliveryLog()
    repeat.take_new(events[: len(events) // 2])
    trace = repeat.delivered_trace("cancelled")
    assert trace.outputs[0].finish_reason == "cancelled"
    assert events[-1].trace.outputs[0].text.startswith(trace.outputs[0].text)
    json_io.loads(json_io.dumps(trace))
    assert DeliveryLog().delivered_trace("cancelled") is None


def test_a_failure_later_on_has_all_that_was_delivered(events):
    repeat = DeliveryLog()
    repeat.take_new(events[:-1])
    repeat.restart()
    (failed,) = repeat.take_new([Failed(BusyError("Full."))])
    assert len(failed.trace.steps) == len(steps_in(events))


def subclasses(kind):
    yield kind
    for one in kind.__subclasses__():
        yield from subclasses(one)


def test_every_error_and_event_travels(events):
    import playground.rooms.room  # noqa: F401

    for kind in set(subclasses(EngineError)):
        if kind is ParameterError:
            error = ParameterError("top_k", -1, "at least 0", "use 0")
        elif kind.__init__ is EngineError.__init__:
            error = kind("A sentence.")
        else:
            continue
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert (str(again), vars(again)) == (str(error), vars(error))
    for event in events:
        assert pickle.loads(pickle.dumps(event)) == event
    assert isinstance(events[-1], Finished)
