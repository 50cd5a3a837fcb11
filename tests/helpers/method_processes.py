"""Confined processes for tests: one that serves many runs, and one without a model.

The playground starts a process for each run of a method, and each imports torch and transformers. A test of what a
run records can share its process with other tests. A test of a limit around a method needs no model at all.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from engine.run import sandboxed_run
from engine.sandbox import method_check
from engine.sandbox import sandbox_parent as children
from engine.sandbox.folder import Method
from engine.sandbox.outcome import Outcome
from engine.sandbox.sandbox_parent import SandboxProcess
from engine.trace.records import Step

_MANY_RUNS = """
import importlib, os, sys; sys.path.insert(0, sys.argv[1])
from engine.sandbox import sandbox_main, wire

run_one = sandbox_main._SandboxedModel.run_job

def run_all(self, job, tell):
    while job is not None:
        tell({"end": run_one(self, job, tell)})
        # The next method may have the same name: its modules are imported from its own files.
        for name in [name for name in sys.modules if name.startswith("transformers_modules")]:
            del sys.modules[name]
        importlib.invalidate_caches()
        job = wire.read_message(sys.stdin.buffer)
    os._exit(0)

sandbox_main._SandboxedModel.run_job = run_all
sandbox_main.main(*map(int, sys.argv[2:]))
"""
"""A process's program: that of every run, with a loop around the run."""

BARE = """
import os, sys; sys.path.insert(0, sys.argv[1])
from engine.sandbox import confinement, sandbox_main

class Bare:
    def __init__(self, setup, abi):
        confinement.set_limits(setup["memory_bytes"], setup["cpu_s"], setup["file_bytes"])
        self.ready = {"barriers": confinement.restrict_calls(abi), "load_s": 0.0, "vocab_size": 100}

    def run_job(self, job, tell):
        place, names = os.path.join(job["method"], "custom_generate", "generate.py"), {}
        try:
            with open(place) as file:
                exec(compile(file.read(), place, "exec"), names)
            names["generate"](model=None, input_ids=job["ids"])
        except BaseException as error:
            return {"error": sandbox_main._error_to_dict(error, os.path.basename(job["method"]))}
        return {"start": 0, "passes": 1, "sequences": [[1]], "notes": []}

sandbox_main._SandboxedModel = Bare
sandbox_main.main(*map(int, sys.argv[2:]))
"""
"""A process's program: every barrier and limit, but no model, no torch and no transformers."""


class BareProcess(SandboxProcess):
    """A confined process without a model: it calls a method with None in its place and says that it wrote one id."""

    def _start(self) -> subprocess.Popen[bytes]:
        # All processes start in one thread, so no other one starts with this program.
        with patch.object(children, "_BOOT_CODE", BARE):
            return super()._start()


class SharedProcess(SandboxProcess):
    """A confined process that serves one run after another, as long as each run comes to its end.

    To close it gives it back; ``end`` ends it.

    Args:
        folder: the model's, absolute.
        weights: how it is held, names and values of declare.weights.
    """

    def __init__(self, folder: str, weights: dict[str, Any] | None = None) -> None:
        self.loaded = (folder, weights or {})
        self.is_taken = True
        self._is_running = False
        super().__init__(folder, weights)

    def _start(self) -> subprocess.Popen[bytes]:
        with patch.object(children, "_BOOT_CODE", _MANY_RUNS):
            return super()._start()

    def _write_method(self, method: Method) -> Path:
        shutil.rmtree(self._own.path / "method", ignore_errors=True)
        return super()._write_method(method)

    def run(
        self, method: Method, job: dict[str, Any], cancelled: threading.Event | None = None
    ) -> Generator[Step, None, Outcome]:
        self._heard = 0
        self._printed.clear()
        self._is_running = True
        return (yield from super().run(method, job, cancelled))

    def _listen(
        self, within_s: float, cancelled: threading.Event | None
    ) -> Iterator[dict[str, Any]]:
        for message in super()._listen(within_s, cancelled):
            if "end" in message:
                self._is_running = False
            yield message

    def close(self) -> None:
        if self._is_running or not self.is_ready or not self.is_alive:
            super().close()
        self.is_taken = False

    def end(self) -> None:
        """End it for good."""
        super().close()


class ProcessPool:
    """Confined processes that the runs of many tests share, one for each model while no two runs overlap."""

    def __init__(self) -> None:
        self._processes: list[SharedProcess] = []
        self._lock = threading.Lock()

    def take(self, folder: str, weights: dict[str, Any] | None = None) -> SharedProcess:
        """Return a process with this model, free again once it is closed; arguments of ``SandboxProcess``."""
        with self._lock:
            for process in self._processes:
                is_free = process.is_alive and not process.is_taken
                if is_free and process.loaded == (folder, weights or {}):
                    process.is_taken = True
                    return process
            process = SharedProcess(folder, weights)
            self._processes.append(process)
            return process

    @contextmanager
    def child_for(
        self,
        folder: str,
        weights: dict[str, Any] | None = None,
        cancelled: threading.Event | None = None,
    ) -> Iterator[SandboxProcess]:
        """Lend a process for one run, in the place of ``spare.child_for``."""
        with self.take(folder, weights) as process:
            process.wait(cancelled)
            yield process

    def end(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.end()


@contextmanager
def shared_processes() -> Iterator[ProcessPool]:
    """Have the runs and checks of methods within a block share their processes."""
    pool = ProcessPool()
    try:
        with (
            patch.object(sandboxed_run, "acquire_process", pool.child_for),
            patch.object(method_check, "SandboxProcess", pool.take),
        ):
            yield pool
    finally:
        pool.end()
