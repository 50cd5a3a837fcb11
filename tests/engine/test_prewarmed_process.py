"""The process that waits for the next method: used once, replaced where it does not fit, and nothing of it is left.

Most tests put a few lines in the place of its program: they say that they are ready, and answer with their number.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from engine.errors import Cancelled, MethodError
from engine.models import loading, memory_budget
from engine.sandbox import prewarmed_process
from engine.sandbox import sandbox_parent as children
from engine.sandbox.folder import Method, read_method
from engine.sandbox.outcome import collect_steps
from engine.sandbox.sandbox_parent import SandboxProcess
from engine.sources.source import Source
from tests.helpers.methods import PLAIN, STAND_IN, job, plain_model, write_method
from tests.helpers.patience import PATIENCE_S, comes_true

ROOT = Path(__file__).parents[2]
PROMPT = [5, 9, 20, 33]
METHOD = Method("stand_in", {}, (), frozenset(), True, True)


@pytest.fixture(autouse=True)
def started(monkeypatch, tmp_path_factory):
    """Return the processes that a test starts; none of them and none of their files may stand afterwards."""
    own = tmp_path_factory.mktemp("own")
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    processes = []
    start = SandboxProcess._start

    def noted(self):
        process = start(self)
        processes.append(process)
        return process

    monkeypatch.setattr(SandboxProcess, "_start", noted)
    monkeypatch.setattr(prewarmed_process, "_START_DELAY_S", 0.0)
    yield processes
    prewarmed_process.end_prewarmed_process()
    assert prewarmed_process._PREWARMER._running == 0
    assert all(process.returncode is not None for process in processes)
    # torch keeps a cache of its own here if it is first compiled for in this test.
    assert [path for path in own.iterdir() if not path.name.startswith("torchinductor_")] == []
    assert prewarmed_process._PREWARMER.end_process not in memory_budget._LOANS


@pytest.fixture
def model(monkeypatch, tmp_path):
    """Return a folder that passes for a model's, with the stand-in in the place of a process's program."""
    monkeypatch.setattr(children, "_BOOT_CODE", STAND_IN)
    return plain_model(tmp_path / "model")


def written_to(path):
    """Change a file and not its size; not even the clock need have gone on."""
    changed = path.stat().st_mtime_ns + 1
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    os.utime(path, ns=(changed, changed))


def limited(monkeypatch, **limits):
    monkeypatch.setattr(
        prewarmed_process, "SETTINGS", dataclasses.replace(prewarmed_process.SETTINGS, **limits)
    )


def prewarm(folder):
    """Begin a process with a model at once, as the end of a run does after a while."""
    spec = prewarmed_process._make_spec(folder, None)
    prewarmed_process._PREWARMER.schedule_start(spec, 0.0)


def waiting():
    found = prewarmed_process._PREWARMER._waiting
    return None if found is None else found.child


def waits():
    """Wait until a process waits; return it."""
    comes_true(waiting)
    return waiting()


def pid(child):
    return child._process.pid


def served(folder):
    """Return the number of the process that serves a run with a model."""
    with prewarmed_process.acquire_process(folder) as child:
        _, outcome = collect_steps(child.run(METHOD, job([PROMPT])))
        assert outcome.notes == (str(pid(child)),)
        return pid(child)


def one_waits():
    """Return whether a process waits, once nobody is about to begin one."""
    keeper = prewarmed_process._PREWARMER

    def settled():
        with keeper._lock:
            return keeper._soon is None

    comes_true(settled)
    return keeper._waiting is not None


@pytest.mark.nightly
def test_cold_and_warm_write_the_same_in_two_processes(tmp_path, monkeypatch):
    folder = Source.parse("storyteller").folder()
    method = read_method(write_method(tmp_path / "m", PLAIN))

    def run():
        with prewarmed_process.acquire_process(folder) as child:
            return *collect_steps(child.run(method, job([PROMPT], new=8))), pid(child)

    steps, cold, number = run()
    spares = pid(waits())
    monkeypatch.setattr(prewarmed_process, "_START_DELAY_S", PATIENCE_S)  # no third one
    again, warm, second = run()
    assert second == spares != number
    assert warm.sequences == cold.sequences
    assert len(cold.sequences[0]) == 8
    assert [(s.emit, s.candidates) for s in again] == [(s.emit, s.candidates) for s in steps]


def test_a_process_serves_one_run(model):
    numbers = [served(model)]
    for _ in range(2):
        numbers.append(pid(waits()))
        assert served(model) == numbers[-1]
    assert len(set(numbers)) == 3


def test_one_that_died_is_replaced(model):
    prewarm(model)
    died = waits()
    os.kill(pid(died), signal.SIGKILL)
    comes_true(lambda: not died.is_alive)
    assert served(model) != pid(died)


def test_one_that_died_after_it_was_ready_is_replaced(model, monkeypatch):
    """Its last word still stands in the pipe, so it passes for ready; it dies as it is taken."""
    prewarm(model)
    died = waits()
    wait = SandboxProcess.wait

    def dies(self, cancelled=None):
        wait(self, cancelled)
        if self is died:
            os.kill(pid(died), signal.SIGKILL)
            died._process.wait(PATIENCE_S)

    monkeypatch.setattr(SandboxProcess, "wait", dies)
    assert served(model) != pid(died)


@pytest.mark.parametrize("other", ["model", "weights", "files"])
def test_one_with_something_else_is_ended(model, tmp_path, other):
    prewarm(model)
    first = waits()
    folder, weights = model, None
    if other == "model":
        folder = plain_model(tmp_path / "other")
    elif other == "weights":
        weights = {"dtype": "bfloat16"}
    else:
        written_to(Path(model) / "model.safetensors")
    with prewarmed_process.acquire_process(folder, weights) as child:
        assert pid(child) != pid(first)
        assert first._process.returncode is not None, "both models are in memory"
    comes_true(lambda: waiting() not in (None, first))


def test_get_ready_keeps_what_fits_and_replaces_what_does_not(model, tmp_path):
    prewarm(model)
    first = waits()
    prewarm(model)
    assert one_waits()
    assert waiting() is first
    prewarm(plain_model(tmp_path / "other"))
    comes_true(lambda: waiting() not in (None, first))
    assert first._process.returncode is not None


def test_of_two_at_the_same_instant_one_has_a_process_of_its_own(model, started):
    prewarm(model)
    warm = pid(waits())
    together, numbers = threading.Barrier(2, timeout=PATIENCE_S), []

    def visit():
        together.wait()
        with prewarmed_process.acquire_process(model) as child:
            numbers.append(pid(child))
            together.wait()  # both are at work

    visitors = [threading.Thread(target=visit) for _ in range(2)]
    for visitor in visitors:
        visitor.start()
    for visitor in visitors:
        visitor.join(PATIENCE_S)
    assert warm in numbers
    assert len(set(numbers)) == 2
    assert one_waits()
    assert len(started) == 4 - 1, "one is begun for the next, and not one for each"


def test_none_begins_while_a_method_runs(model, started):
    with ExitStack() as first:
        first.enter_context(prewarmed_process.acquire_process(model))
        with prewarmed_process.acquire_process(model):
            pass
        prewarm(model)
        assert not one_waits()
    assert waits()


def test_it_ends_where_nobody_comes(model, monkeypatch, started):
    limited(monkeypatch, spare_method_s=0.2)
    prewarm(model)
    comes_true(lambda: started and started[0].returncode is not None)
    assert waiting() is None


def test_none_is_kept_where_none_is_wanted(model, monkeypatch):
    limited(monkeypatch, spare_method_s=0.0)
    served(model)
    assert not one_waits()


def test_none_is_begun_without_room_nor_for_what_is_no_model(model, monkeypatch, tmp_path):
    prewarm(str(tmp_path / "nowhere"))
    (Path(model) / "model.safetensors").write_bytes(b"damaged")
    prewarm(model)
    assert not one_waits()
    other = plain_model(tmp_path / "other")
    needed = prewarmed_process._estimate_bytes(prewarmed_process._make_spec(other, None))
    monkeypatch.setattr(prewarmed_process, "free_budget_bytes", lambda: needed - 1)
    prewarm(other)
    assert not one_waits()
    monkeypatch.setattr(prewarmed_process, "free_budget_bytes", lambda: needed)
    prewarm(other)
    assert waits()
    served(other)


def test_it_leaves_where_a_model_needs_its_memory(model, monkeypatch):
    def budget(free):
        most = loading.SETTINGS.max_model_memory_gb + (free - loading.free_budget_bytes()) / 1e9
        limits = dataclasses.replace(loading.SETTINGS, max_model_memory_gb=most)
        monkeypatch.setattr(loading, "SETTINGS", limits)
        with loading.pin_models():  # at whose end the budget has to hold
            pass

    prewarm(model)
    gone = waits()
    budget(2.0 * prewarmed_process._INTERPRETER_BYTES)
    assert waiting() is gone
    budget(0.5 * prewarmed_process._INTERPRETER_BYTES)
    assert waiting() is None
    assert gone._process.returncode is not None


def test_a_visitor_who_cancels_or_fails_leaves_nothing(model):
    prewarm(model)
    waits()
    cancelled = threading.Event()
    cancelled.set()
    with (
        pytest.raises(Cancelled),
        prewarmed_process.acquire_process(model, {"never": 1}, cancelled),
    ):
        pass
    with (
        pytest.raises(MethodError, match="could not start"),
        prewarmed_process.acquire_process(model, {"fails": 1}),
    ):
        pass
    assert not one_waits()
    with pytest.raises(ZeroDivisionError), prewarmed_process.acquire_process(model):
        raise ZeroDivisionError
    assert waits()


def test_after_the_last_word_none_begins(model):
    keeper = prewarmed_process._Prewarmer()
    keeper.schedule_start(prewarmed_process._make_spec(model, None), 0.0)
    comes_true(lambda: keeper._waiting)
    keeper.end_process(for_good=True)
    keeper.schedule_start(prewarmed_process._make_spec(model, None), 0.0)
    assert keeper._soon is keeper._waiting is None


LEAVES = """
import json, sys, threading
from engine.sandbox import sandbox_parent, prewarmed_process

sandbox_parent._BOOT_CODE = sys.argv[1]
spec = prewarmed_process._make_spec(sys.argv[2], None)
prewarmed_process._PREWARMER.schedule_start(spec, 0.0)
while prewarmed_process._PREWARMER._waiting is None:
    threading.Event().wait(0.01)
waiting = prewarmed_process._PREWARMER._waiting.child
waiting.wait()
print(json.dumps([waiting._process.pid, str(waiting._own)]))
"""


@pytest.mark.nightly
def test_it_ends_with_the_interpreter(model, tmp_path):
    place = tmp_path / "temporary"
    place.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", LEAVES, STAND_IN, model],
        check=False,
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(place)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    number, _ = json.loads(done.stdout)
    with pytest.raises(ProcessLookupError):
        os.kill(number, 0)
    assert list(place.iterdir()) == []
