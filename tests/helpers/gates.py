"""Forward passes that wait for the test, so that a run can be met at a known place."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.helpers.patience import PATIENCE_S, wait_for
from tests.helpers.queue import wait_for_all_runs


class Gate:
    """Holds a model's forward passes.

    Attributes:
        passes: how many have begun.
    """

    def __init__(self, free: int) -> None:
        self.passes, self._free = 0, free
        self._held, self._open = threading.Event(), threading.Event()

    def wait(self) -> None:
        """Wait until a pass is held; what came before it is done by then."""
        wait_for(self._held)

    def open(self) -> None:
        """Let all passes through from now on."""
        self._open.set()

    def _enter(self, *args: Any) -> None:
        self.passes += 1
        if self.passes > self._free:
            self._held.set()
            # A test waits for what ends a run that is held: it must give up before the run does.
            assert self._open.wait(2 * PATIENCE_S), "nobody opened the gate"


@contextmanager
def gate(model: Any, free: int) -> Iterator[Gate]:
    """Let the first ``free`` forward passes of a torch module through and hold the next."""
    held = Gate(free)
    hook = model.register_forward_pre_hook(held._enter)
    try:
        yield held
    finally:
        held.open()
        hook.remove()


@contextmanager
def gate_between_runs(model: Any) -> Iterator[Gate]:
    """Hold all forward passes of a model from when no run is left until none is left again."""
    wait_for_all_runs()
    with gate(model, free=0) as held:
        yield held
    wait_for_all_runs()
