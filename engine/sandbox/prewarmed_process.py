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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.declare.weights import read_weights
from engine.errors import EngineError, MethodError
from engine.models import lent
from engine.models.devices import default_device
from engine.models.loading import room
from engine.models.sizes import values_in
from engine.models.weights import settled, torch_dtype
from engine.sandbox.sandbox_parent import Child
from engine.settings import SETTINGS

_PAUSE_S = 1.0
"""Seconds between a run and the start of the next process: the run's last work comes first."""
_INTERPRETER_BYTES = 350_000_000
"""Memory of a process besides its model."""
_LOG = logging.getLogger("engine")


@contextmanager
def child_for(
    folder: str, weights: dict[str, Any] | None = None, cancelled: threading.Event | None = None
) -> Iterator[Child]:
    """Yield a process with this model for one run, prewarmed or new; it is closed at the end.

    Args:
        folder: the model's, absolute.
        weights: names and values of declare.weights.
        cancelled: gives up waiting when set.

    Raises:
        Cancelled: the run was cancelled.
        MethodError: the process could not start.
    """
    wanted, was_ready = _wanted(folder, weights), False
    spare = _KEEPER.take(wanted)
    try:
        with _ready(spare, cancelled) or Child(folder, weights) as child:
            child.wait(cancelled)
            was_ready = True
            yield child
    finally:
        _KEEPER.done(wanted if was_ready else None)


def get_ready(folder: str, weights: dict[str, Any] | None = None) -> None:
    """Start a prewarmed process in the background, replacing one with another model.

    Does nothing if memory is short, prewarming is off, or a method runs; the end of that run starts
    one.

    Args:
        folder: the model's, absolute.
        weights: names and values of declare.weights.
    """
    _KEEPER.begin_soon(_wanted(folder, weights), 0.0)


def let_go(*, for_good: bool = False) -> None:
    """End the prewarmed process, if any.

    Args:
        for_good: start none any more, as this process is about to end.
    """
    _KEEPER.let_go(for_good=for_good)


@dataclass(frozen=True)
class _Wanted:
    """What a process is started with; processes with equal values are interchangeable."""

    folder: str
    weights: str
    """Names and values as JSON."""
    files: tuple[tuple[str, int, int, int], ...]
    """(name, inode, size, mtime) of each file in the folder, empty if it does not exist."""


def _wanted(folder: str, weights: dict[str, Any] | None) -> _Wanted:
    try:
        found = sorted((path.name, path.stat()) for path in Path(folder).iterdir())
    except OSError:
        found = []
    files = tuple((name, s.st_ino, s.st_size, s.st_mtime_ns) for name, s in found)
    return _Wanted(folder, json.dumps(weights or {}, sort_keys=True), files)


def _size(wanted: _Wanted) -> float:
    """Return a process's memory in bytes, unquantized; inf if the folder is not a model."""
    try:
        own, _ = read_weights(json.loads(wanted.weights), "", assistant=False)
        values = values_in(Path(wanted.folder).name, wanted.folder)
    except EngineError:
        return math.inf
    dtype = torch_dtype(settled(own, default_device()).dtype or "float32")
    return values * dtype.itemsize + _INTERPRETER_BYTES


def _ready(spare: Child | None, cancelled: threading.Event | None) -> Child | None:
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
class _Waiting:
    wanted: _Wanted
    child: Child
    idle: threading.Timer


class _Keeper:
    """Manages the prewarmed process; its methods are safe to call from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: _Waiting | None = None
        self._soon: threading.Timer | None = None
        self._running = 0
        self._ended = False

    def take(self, wanted: _Wanted) -> Child | None:
        """Return the prewarmed process if it matches, else end it; none starts until ``done``."""
        with self._lock:
            self._running += 1
            self._call_off()
            waiting = self._waiting
            if waiting is None or waiting.wanted != wanted:
                self._end()
                return None
            self._forget()
            return waiting.child

    def done(self, wanted: _Wanted | None) -> None:
        """Record the end of a run.

        Args:
            wanted: specification for the next process, None if this one failed to start.
        """
        with self._lock:
            self._running -= 1
        if wanted is not None:
            self.begin_soon(wanted, _PAUSE_S)

    def begin_soon(self, wanted: _Wanted, after_s: float) -> None:
        """Schedule the start of a process, unless an equal one is ready."""
        with self._lock:
            if self._ended or self._running or SETTINGS.spare_method_s <= 0 or not wanted.files:
                return
            waiting = self._waiting
            if waiting is not None and waiting.wanted == wanted and waiting.child.is_alive:
                return
            self._call_off()
            self._soon = _timer(after_s, lambda: self._begin(wanted))

    def let_go(self, *, for_good: bool = False) -> None:
        """End the prewarmed process and cancel a scheduled one."""
        with self._lock:
            self._ended = self._ended or for_good
            self._call_off()
            self._end()

    def after_fork(self) -> None:
        """After a fork: forget the parent's process and never start one in a single-run child."""
        self.__init__()
        self._ended = True

    def _begin(self, wanted: _Wanted) -> None:
        size = _size(wanted)
        with self._lock:
            # Otherwise it was cancelled while it waited for the lock.
            if self._soon is threading.current_thread():
                self._soon = None
                self._end()
                self._start(wanted, size)

    def _start(self, wanted: _Wanted, size: float) -> None:
        if size > room():
            return
        try:
            child = Child(wanted.folder, json.loads(wanted.weights))
        except (OSError, RuntimeError, EngineError) as error:
            # Not an error for the user yet: a run that needs a process reports it.
            _LOG.info("no process waits for a method: %s", type(error).__name__)
            return
        idle = _timer(SETTINGS.spare_method_s, lambda: self._left(child))
        self._waiting = _Waiting(wanted, child, idle)
        # A model that is loaded reclaims this memory before any other model is evicted.
        lent.lend(size, self.let_go)

    def _left(self, child: Child) -> None:
        """End a process that stayed idle too long."""
        with self._lock:
            if self._waiting is not None and self._waiting.child is child:
                self._end()

    def _call_off(self) -> None:
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
            lent.returned(self.let_go)


def _timer(after_s: float, do: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(after_s, do)
    timer.daemon = True
    timer.start()
    return timer


_KEEPER = _Keeper()
atexit.register(let_go, for_good=True)
os.register_at_fork(after_in_child=_KEEPER.after_fork)
