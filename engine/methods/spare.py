"""A process that waits with a model in its memory, so that whoever runs the next method need not.

A process serves one run, as a method may have spoiled it. What is warm is therefore the next one: it is begun
after a run has ended, while no method runs, there is one at most, and it ends where nobody comes.
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
from engine.methods.child import Child
from engine.models import lent
from engine.models.devices import default_device
from engine.models.loading import room
from engine.models.sizes import values_in
from engine.models.weights import settled, torch_dtype
from engine.settings import SETTINGS

_PAUSE_S = 1.0
"""So long after a run the next process is begun: what is still done for that run comes first."""
_INTERPRETER_BYTES = 350_000_000
"""What a process takes beside its model."""
_LOG = logging.getLogger("engine")


@contextmanager
def child_for(
    folder: str, weights: dict[str, Any] | None = None, cancelled: threading.Event | None = None
) -> Iterator[Child]:
    """A process with this model in its memory for one run, a new one or the one that waited; closed at the end.

    Args:
        folder: the model's, absolute.
        weights: how it is held, names and values of declare.weights.
        cancelled: gives up waiting when set.

    Raises:
        Cancelled: it was cancelled.
        MethodError: the process could not get ready.
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
    """Begin a process for the next run, in the background; it replaces one with another model.

    Nothing happens where there is too little memory or none is to be kept, and while a method runs: the end of
    that run does the same.

    Args:
        folder: the model's, absolute.
        weights: how it is held, names and values of declare.weights.
    """
    _KEEPER.begin_soon(_wanted(folder, weights), 0.0)


def let_go(*, for_good: bool = False) -> None:
    """End the process that waits; where none does, do nothing.

    Args:
        for_good: begin none any more, as this process is about to end.
    """
    _KEEPER.let_go(for_good=for_good)


@dataclass(frozen=True)
class _Wanted:
    """What a process is begun with: of two that are equal, one may stand for the other."""

    folder: str
    weights: str
    """JSON of their names and values."""
    files: tuple[tuple[str, int, int, int], ...]
    """Of the folder as it was: name, number, size and time of change of each; none where it is gone."""


def _wanted(folder: str, weights: dict[str, Any] | None) -> _Wanted:
    try:
        found = sorted((path.name, path.stat()) for path in Path(folder).iterdir())
    except OSError:
        found = []
    files = tuple((name, s.st_ino, s.st_size, s.st_mtime_ns) for name, s in found)
    return _Wanted(folder, json.dumps(weights or {}, sort_keys=True), files)


def _size(wanted: _Wanted) -> float:
    """Return the bytes that a process takes, as if none of its weights were packed; inf for what is no model."""
    try:
        own, _ = read_weights(json.loads(wanted.weights), "", assistant=False)
        values = values_in(Path(wanted.folder).name, wanted.folder)
    except EngineError:
        return math.inf
    dtype = torch_dtype(settled(own, default_device()).dtype or "float32")
    return values * dtype.itemsize + _INTERPRETER_BYTES


def _ready(spare: Child | None, cancelled: threading.Event | None) -> Child | None:
    """Return a process that waited once it is ready, None where it has ended meanwhile."""
    if spare is None:
        return None
    try:
        spare.wait(cancelled)
        if spare.is_alive:
            return spare
    except MethodError:
        pass  # whatever it died of, another is asked
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
    """Keeps the one process that waits; every method may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: _Waiting | None = None
        self._soon: threading.Timer | None = None
        self._running = 0
        self._ended = False

    def take(self, wanted: _Wanted) -> Child | None:
        """Hand over the process that waits if it is what is wanted, else end it; until ``done``, none is begun."""
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
        """Note that a run has ended.

        Args:
            wanted: what the next may want, None where it could not be had.
        """
        with self._lock:
            self._running -= 1
        if wanted is not None:
            self.begin_soon(wanted, _PAUSE_S)

    def begin_soon(self, wanted: _Wanted, after_s: float) -> None:
        """Begin a process in the background, unless it waits already."""
        with self._lock:
            if self._ended or self._running or SETTINGS.spare_method_s <= 0 or not wanted.files:
                return
            waiting = self._waiting
            if waiting is not None and waiting.wanted == wanted and waiting.child.is_alive:
                return
            self._call_off()
            self._soon = _timer(after_s, lambda: self._begin(wanted))

    def let_go(self, *, for_good: bool = False) -> None:
        """End the process that waits, and the one that is about to begin."""
        with self._lock:
            self._ended = self._ended or for_good
            self._call_off()
            self._end()

    def after_fork(self) -> None:
        """Leave what waits to the process that began it, and begin none for one that lasts for one run."""
        self.__init__()
        self._ended = True

    def _begin(self, wanted: _Wanted) -> None:
        size = _size(wanted)
        with self._lock:
            # Else it was called off while it waited for the lock.
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
            # Nobody has asked for it; whoever runs a method is told.
            _LOG.info("no process waits for a method: %s", type(error).__name__)
            return
        idle = _timer(SETTINGS.spare_method_s, lambda: self._left(child))
        self._waiting = _Waiting(wanted, child, idle)
        lent.lend(size, self.let_go)

    def _left(self, child: Child) -> None:
        """End a process for which nobody came."""
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
