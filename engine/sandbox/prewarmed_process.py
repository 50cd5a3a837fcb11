"""Keeps one prewarmed sandboxed process with a model in memory, so the next method starts at once.

A process serves one run, as a method may have altered its model. The next one is started after a
run, while no method runs. There is at most one, and it ends after an idle time.
"""

from __future__ import annotations

import atexit
import json
import logging
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.declare.weights import parse_weights
from engine.errors import EngineError, MethodError
from engine.models import memory_budget
from engine.models.loading import free_budget_bytes
from engine.models.sizes import count_values
from engine.models.weights import torch_dtype, with_default_dtype
from engine.sandbox.confinement import DEVICE
from engine.sandbox.sandbox_parent import SandboxProcess
from engine.settings import SETTINGS

_START_DELAY_S = 1.0
"""Seconds between a run and the start of the next process: the run's last work comes first."""
_INTERPRETER_BYTES = 350_000_000
"""Memory of a process besides its model."""
_LOG = logging.getLogger("engine")


@contextmanager
def acquire_process(
    folder: str,
    weights: Mapping[str, object] | None = None,
    cancelled: threading.Event | None = None,
) -> Iterator[SandboxProcess]:
    """Yield a process with this model for one run, prewarmed or new; it is closed at the end.

    Args:
        folder: the model's, absolute.
        weights: names and values of declare.weights.
        cancelled: gives up waiting when set.

    Raises:
        Cancelled: the run was cancelled.
        MethodError: the process could not start.
    """
    wanted, was_ready = _make_spec(folder, weights), False
    spare = _PREWARMER.take(wanted)
    try:
        with _wait_until_ready(spare, cancelled) or SandboxProcess(folder, weights) as child:
            child.wait(cancelled)
            was_ready = True
            yield child
    finally:
        _PREWARMER.done(wanted if was_ready else None)


def end_prewarmed_process(*, for_good: bool = False) -> None:
    """End the prewarmed process, if any.

    Args:
        for_good: start none any more, as this process is about to end.
    """
    _PREWARMER.end_process(for_good=for_good)


@dataclass(frozen=True)
class _ProcessSpec:
    """What a process is started with; processes with equal values are interchangeable."""

    folder: str
    weights: str
    """Names and values as JSON."""
    files: tuple[tuple[str, int, int, int], ...]
    """(name, inode, size, mtime) of each file in the folder, empty if it does not exist."""


def _make_spec(folder: str, weights: Mapping[str, object] | None) -> _ProcessSpec:
    try:
        found = sorted((path.name, path.stat()) for path in Path(folder).iterdir())
    except OSError:
        found = []
    # A model that was replaced in its folder must not be used from memory.
    files = tuple((name, s.st_ino, s.st_size, s.st_mtime_ns) for name, s in found)
    return _ProcessSpec(folder, json.dumps(weights or {}, sort_keys=True), files)


def _estimate_bytes(wanted: _ProcessSpec) -> float:
    """Return a process's memory in bytes, unquantized; inf if the folder is not a model."""
    try:
        own, _ = parse_weights(json.loads(wanted.weights), "", assistant=False)
        values = count_values(Path(wanted.folder).name, wanted.folder)
    except EngineError:
        return math.inf
    dtype = torch_dtype(with_default_dtype(own, DEVICE).dtype or "float32")
    return values * dtype.itemsize + _INTERPRETER_BYTES


def _wait_until_ready(
    spare: SandboxProcess | None, cancelled: threading.Event | None
) -> SandboxProcess | None:
    """Return the prewarmed process once it is ready, None if it has ended."""
    if spare is None:
        return None
    try:
        spare.wait(cancelled)
        # A killed process may have left its ready message in the pipe.
        if spare.is_alive:
            return spare
    except MethodError:
        pass  # a new process is started instead
    except BaseException:
        spare.close()
        raise
    spare.close()
    return None


@dataclass(frozen=True)
class _Prewarmed:
    wanted: _ProcessSpec
    child: SandboxProcess
    idle: threading.Timer


class _Prewarmer:
    """Manages the prewarmed process; its methods are safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: _Prewarmed | None = None
        self._soon: threading.Timer | None = None
        self._running = 0
        self._ended = False

    def take(self, wanted: _ProcessSpec) -> SandboxProcess | None:
        """Return the prewarmed process if it matches, else end it; none starts until ``done``."""
        with self._lock:
            self._running += 1
            self._cancel_scheduled()
            waiting = self._waiting
            if waiting is None or waiting.wanted != wanted:
                self._end()
                return None
            self._forget()
            return waiting.child

    def done(self, wanted: _ProcessSpec | None) -> None:
        """Record the end of a run.

        Args:
            wanted: specification for the next process, None if this one failed to start.
        """
        with self._lock:
            self._running -= 1
        if wanted is not None:
            self.schedule_start(wanted, _START_DELAY_S)

    def schedule_start(self, wanted: _ProcessSpec, after_s: float) -> None:
        """Schedule the start of a process, unless an equal one is ready."""
        with self._lock:
            if self._ended or self._running or SETTINGS.spare_method_s <= 0 or not wanted.files:
                return
            waiting = self._waiting
            if waiting is not None and waiting.wanted == wanted and waiting.child.is_alive:
                return
            self._cancel_scheduled()
            self._soon = _start_timer(after_s, lambda: self._start_scheduled(wanted))

    def end_process(self, *, for_good: bool = False) -> None:
        """End the prewarmed process and cancel a scheduled one."""
        with self._lock:
            self._ended = self._ended or for_good
            self._cancel_scheduled()
            self._end()

    def reset_after_fork(self) -> None:
        """After a fork: forget the parent's process and never start one in a single-run child."""
        self.__init__()
        self._ended = True

    def _start_scheduled(self, wanted: _ProcessSpec) -> None:
        # Before the lock is taken, as it reads the model's files.
        size = _estimate_bytes(wanted)
        with self._lock:
            # Otherwise it was cancelled while it waited for the lock.
            if self._soon is threading.current_thread():
                self._soon = None
                self._end()
                self._start(wanted, size)

    def _start(self, wanted: _ProcessSpec, size: float) -> None:
        if size > free_budget_bytes():
            return
        try:
            child = SandboxProcess(wanted.folder, json.loads(wanted.weights))
        except (OSError, RuntimeError, EngineError) as error:
            # Not an error for the user yet: a run that needs a process reports it.
            _LOG.info("no process waits for a method: %s", type(error).__name__)
            return
        idle = _start_timer(SETTINGS.spare_method_s, lambda: self._end_idle(child))
        self._waiting = _Prewarmed(wanted, child, idle)
        # A model that is loaded reclaims this memory before any other model is evicted.
        memory_budget.lend_memory(size, self.end_process)

    def _end_idle(self, child: SandboxProcess) -> None:
        """End a process that stayed idle too long."""
        with self._lock:
            if self._waiting is not None and self._waiting.child is child:
                self._end()

    def _cancel_scheduled(self) -> None:
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None

    def _end(self) -> None:
        waiting = self._waiting
        self._forget()
        if waiting is not None:
            waiting.child.close()

    def _forget(self) -> None:
        if self._waiting is not None:
            self._waiting.idle.cancel()
            self._waiting = None
            memory_budget.end_loan(self.end_process)


def _start_timer(after_s: float, do: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(after_s, do)
    timer.daemon = True
    timer.start()
    return timer


_PREWARMER = _Prewarmer()
atexit.register(end_prewarmed_process, for_good=True)
os.register_at_fork(after_in_child=_PREWARMER.reset_after_fork)
