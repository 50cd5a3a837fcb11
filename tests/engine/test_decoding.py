"""The contract of decode(): events, cancelling, errors, isolation, limits."""

from __future__ import annotations

import dataclasses
import threading
import types
from concurrent.futures import ThreadPoolExecutor, wait

import pytest
import torch
from transformers.generation import stopping_criteria

import engine.run.jobs
import engine.run.run
from engine import DecodeRequest, LoadedModel, decode, timing_noise
from engine.errors import Cancelled
from engine.run import jobs
from engine.run.streamer import QueueStreamer
from engine.strategies import STRATEGIES
from engine.trace.events import Failed, Finished, Started, StepRecorded, TextDelta
from engine.trace.records import replay_ids
from tests.helpers.gates import gate
from tests.helpers.models import fresh_model, golden_model
from tests.helpers.patience import PATIENCE_S
from tests.helpers.runs import failed, finished

PROMPT = [5, 9, 11, 4]


def request(strategy="sampling", model=None, **params):
    return DecodeRequest(
        strategy,
        model or golden_model("llama"),
        input_ids=PROMPT,
        params={"max_new_tokens": 8, **params},
        seed=1,
    )


def test_events_come_in_order_and_replay_to_the_output():
    events = list(decode(request(num_return_sequences=2)))
    assert isinstance(events[0], Started)
    assert isinstance(events[-1], Finished)
    trace = events[-1].trace
    assert tuple(e.step for e in events if isinstance(e, StepRecorded)) == trace.steps
    for number, output in enumerate(trace.outputs):
        assert replay_ids(trace.steps_of(number)) == list(output.token_ids)
        text = ""
        for e in events:
            if isinstance(e, TextDelta) and e.sequence == number:
                text = text[: e.keep_chars] + e.text
        assert text == output.text
    assert sum(step.forward_passes for step in trace.steps) == 8


def test_every_named_token_has_a_piece_before_it_is_needed():
    known = set()
    for event in decode(request()):
        if isinstance(event, Started):
            known |= set(event.header.pieces)
        if isinstance(event, StepRecorded):
            known |= set(event.pieces)
            assert {*event.step.emit, *(c.token_id for c in event.step.candidates)} <= known
    assert len(known) > len(PROMPT)


def test_a_loop_whose_record_is_not_its_text_is_found_out(monkeypatch):
    def lying(*args, **kwargs):
        ids = yield from STRATEGIES["greedy"].loop(*args, **kwargs)
        return ids.flip(-1)

    liar = dataclasses.replace(STRATEGIES["greedy"], loop=lying)
    monkeypatch.setattr("engine.run.request.STRATEGIES", {"greedy": liar})
    error = failed(request("greedy"))
    assert str(error) == "The recorded steps disagree with the returned tokens."


class Broken(torch.nn.Module):
    """A model whose n-th forward misbehaves."""

    def __init__(self, error_at, error=None):
        super().__init__()
        self.inner = fresh_model("llama")
        self.calls, self.error_at, self.error = 0, error_at, error
        original = self.inner.forward

        def forward(*args, **kwargs):
            self.calls += 1
            out = original(*args, **kwargs)
            if self.calls == self.error_at:
                if self.error:
                    raise self.error
                out.logits[:] = float("nan")
            return out

        self.inner.forward = forward


@pytest.mark.parametrize("strategy", ["greedy", "sampling"])
def test_logits_that_are_not_finite_name_the_step(strategy):
    last = list(decode(request(strategy, LoadedModel(Broken(4).inner))))[-1]
    assert isinstance(last, Failed)
    assert str(last.error) == "The model's raw logits are not finite at step 4."
    assert len(last.trace.steps) == 3


@pytest.mark.parametrize(
    "error", [RuntimeError("secret prompt"), SystemExit(3), KeyboardInterrupt()]
)
def test_an_error_in_the_model_is_one_sentence_and_the_next_run_works(error, caplog):
    broken = Broken(2, error)
    loaded = LoadedModel(broken.inner)
    last = list(decode(request("greedy", loaded)))[-1]
    assert isinstance(last, Failed)
    assert "secret" not in str(last.error)
    # The log says where and what kind, not what the message quotes.
    assert type(error).__name__ in caplog.text
    assert "secret" not in caplog.text
    assert "\n" not in str(last.error)
    assert isinstance(list(decode(request("greedy", loaded)))[-1], Finished)


def test_out_of_memory_is_reported_as_such():
    loaded = LoadedModel(Broken(3, torch.OutOfMemoryError("CUDA out of memory")).inner)
    assert "Not enough memory" in str(failed(request("greedy", loaded)))


def test_all_tokens_removed_names_the_processor():
    error = failed(request("greedy", suppress_tokens=list(range(97))))
    assert str(error) == "SuppressTokens removed every token at step 1."


@pytest.mark.parametrize("strategy", ["greedy", "sampling"])
def test_close_stops_the_work_within_a_step(strategy):
    loaded = LoadedModel(fresh_model("llama"))
    with gate(loaded.model, free=4) as held:
        run = decode(request(strategy, loaded, max_new_tokens=200))
        next(run)
        held.wait()
        run.close()
        held.open()
        assert run.join(PATIENCE_S)
    assert held.passes == 5
    assert not loaded.lock.locked()


def test_cancel_keeps_what_there_is():
    loaded = LoadedModel(fresh_model("llama"))
    with gate(loaded.model, free=4) as held:
        run = decode(request("greedy", loaded, max_new_tokens=200))
        held.wait()
        run.cancel()
        held.open()
        *_, last = run
    assert isinstance(last, Finished)
    assert last.trace.outputs[0].finish_reason == "cancelled"
    assert len(last.trace.steps) == len(last.trace.outputs[0].token_ids) == held.passes == 5


def test_an_abandoned_run_stops():
    loaded = LoadedModel(fresh_model("llama"))
    with gate(loaded.model, free=2) as held:
        run = decode(request("greedy", loaded, max_new_tokens=200))
        next(run)
        held.wait()
        thread = run._thread
        del run
        held.open()
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert held.passes == 3


def test_runs_in_parallel_do_not_touch_each_other():
    golden_model("gpt2")  # its weights are drawn with the global generator
    # A state that no run leaves behind, whichever is the last.
    before = torch.manual_seed(77).get_state()
    alone = {seed: _ids(seed) for seed in range(4)}
    together: dict[int, list] = {}
    threads = [threading.Thread(target=lambda s=s: together.update({s: _ids(s)})) for s in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone
    assert torch.equal(before, torch.get_rng_state()), "the global generator was used"


def _ids(seed):
    request = DecodeRequest(
        "sampling",
        golden_model("gpt2"),
        input_ids=PROMPT,
        seed=seed,
        params={"max_new_tokens": 12},
    )
    return [output.token_ids for output in finished(request).outputs]


def clock_of(model):
    """Return a module ``time`` of which a second passes with every forward pass."""
    passes = []
    model.register_forward_pre_hook(lambda *_: passes.append(1))

    def now():
        return float(len(passes))

    return types.SimpleNamespace(time=now, perf_counter=now, thread_time=now)


def test_max_time_and_length_are_distinguished(monkeypatch):
    loaded = LoadedModel(fresh_model("llama"))
    monkeypatch.setattr(stopping_criteria, "time", clock_of(loaded.model))
    trace = finished(request("greedy", loaded, max_time=2.5, max_new_tokens=100))
    assert trace.outputs[0].finish_reason == "stop"
    assert len(trace.outputs[0].token_ids) == 3
    assert finished(request("greedy")).outputs[0].finish_reason == "length"


def test_batches_wait_for_their_interval_and_lose_nothing(monkeypatch):
    now, slept = [100.0], []

    def sleep(seconds):
        slept.append(seconds)
        now[0] += seconds

    clock = types.SimpleNamespace(perf_counter=lambda: now[0], sleep=sleep)
    monkeypatch.setattr(engine.run.jobs, "time", clock)
    loaded = LoadedModel(fresh_model("llama"))
    with gate(loaded.model, free=2) as held:
        batches = decode(request("greedy", loaded)).batches(3.0)
        first = next(batches)
        held.wait()
        held.open()
        rest = list(batches)
    assert isinstance(first[0], Started)
    assert isinstance(rest[-1][-1], Finished)
    steps = [e.step for batch in (first, *rest) for e in batch if isinstance(e, StepRecorded)]
    assert tuple(steps) == rest[-1][-1].trace.steps
    # The first batch, the first step and an end that comes by itself wait for nothing.
    at_once = next(
        n
        for n, batch in enumerate((first, *rest), 1)
        if not all(isinstance(event, Started) for event in batch)
    )
    assert at_once <= 2
    assert slept[:at_once] == [0.0] * at_once
    assert set(slept[at_once:]) == {3.0}
    assert len((first, *rest)) - len(slept) in (0, 1)


def test_a_run_that_reaches_the_limit_keeps_what_there_is_and_says_so(monkeypatch):
    loaded = LoadedModel(fresh_model("llama"))
    monkeypatch.setattr(timing_noise, "time", clock_of(loaded.model))
    short = dataclasses.replace(engine.run.run.SETTINGS, max_runtime_s=3.5)
    monkeypatch.setattr(engine.run.run, "SETTINGS", short)
    trace = finished(request("greedy", loaded, max_new_tokens=100))
    assert len(trace.outputs[0].token_ids) == 4
    assert trace.outputs[0].finish_reason == "stop"
    assert trace.notes == ("The run reached the limit of 3.5 seconds.",)


def test_a_context_that_would_overflow_cuts_the_length_and_says_so():
    trace = finished(
        DecodeRequest(
            "greedy", golden_model("gpt2"), input_ids=[5] * 250, params={"max_new_tokens": 20}
        )
    )
    assert len(trace.outputs[0].token_ids) == trace.config["max_new_tokens"] == 6
    assert "was cut to 6" in trace.notes[0]
    full = DecodeRequest("greedy", golden_model("gpt2"), input_ids=[5] * 256)
    assert "256 tokens" in str(failed(full))


def test_streamer_is_a_drop_in_for_generate_and_passes_errors_on():
    streamer = QueueStreamer()
    model = fresh_model("llama")
    ids = torch.tensor([PROMPT])
    thread = threading.Thread(
        target=model.generate,
        args=(ids,),
        kwargs={"max_new_tokens": 3, "streamer": streamer, "do_sample": False},
    )
    thread.start()
    items = list(streamer)
    thread.join()
    assert items[0] == [PROMPT]
    assert len(items) == 4
    failing = QueueStreamer()
    failing.fail(ValueError("x"))
    with pytest.raises(ValueError, match="x"):
        list(failing)
    closed = QueueStreamer(1)
    closed.close()
    with pytest.raises(Cancelled):
        closed.put(1)


def test_registry_keys_are_the_names():
    assert all(name == strategy.name for name, strategy in STRATEGIES.items())


def test_the_end_may_come_while_work_begins(monkeypatch):
    ended = ThreadPoolExecutor(1)
    ended.submit(int).result()  # its thread runs already
    start, ends = threading.Thread.start, []

    def slowly(thread):
        ends.append(ended.submit(jobs.stop_all_jobs, 0.0))
        wait(ends, timeout=0.2)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", slowly)
    begun = jobs.JobStream(
        lambda send, cancelled: jobs.FunctionJob(lambda *_: None, send, cancelled)
    )
    monkeypatch.undo()
    assert begun.join(PATIENCE_S)
    assert [end.result() for end in ends] == [None]
    ended.shutdown()
