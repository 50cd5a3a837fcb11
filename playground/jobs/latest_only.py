"""A limiter for questions: few run at a time, and a client's new one cancels its previous one."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.errors import Cancelled

_POLL_S = 0.05
_MAX_CLIENTS = 64
_MAX_NAME = 64


class LatestOnlyLimiter:
    """Slots for questions of one kind.

    Args:
        places: how many questions run at the same time.
    """

    def __init__(self, places: int) -> None:
        self._at_work = threading.Semaphore(places)
        self._asking: OrderedDict[str, threading.Event] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def acquire(self, asker: Any) -> Iterator[threading.Event]:
        """Cancel the client's previous question and wait for a slot.

        Args:
            asker: the unguessable id of one part of a page; any other value means anonymous.

        Yields:
            An event that is set when the same client asks again.

        Raises:
            Cancelled: the client asked again while this question waited.
        """
        name = asker if isinstance(asker, str) and len(asker) <= _MAX_NAME else ""
        cancelled = self._begun(name)
        try:
            while not self._at_work.acquire(timeout=_POLL_S):
                if cancelled.is_set():
                    raise Cancelled
            try:
                yield cancelled
            finally:
                self._at_work.release()
        finally:
            with self._lock:
                # A newer question of the same client may have replaced this one.
                if self._asking.get(name) is cancelled:
                    del self._asking[name]

    def cancel(self, asker: Any) -> None:
        """Cancel a client's current question, if any."""
        with self._lock:
            before = self._asking.pop(asker, None) if isinstance(asker, str) else None
        if before is not None:
            before.set()

    def _begun(self, name: str) -> threading.Event:
        cancelled = threading.Event()
        self.cancel(name)
        with self._lock:
            if name:
                self._asking[name] = cancelled
            while len(self._asking) > _MAX_CLIENTS:
                self._asking.popitem(last=False)
        return cancelled
