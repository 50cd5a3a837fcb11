"""Wakes all streams that wait for news of a room, with one event per event loop."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress


class Notifier:
    """Wakes all current waiters. Thread-safe."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}
        self._lock = threading.Lock()

    def next_event(self) -> asyncio.Event:
        """Return the event that the next ``ring`` sets.

        Get it before you check for news, so that none is missed.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            return self._waiting.setdefault(loop, asyncio.Event())

    def notify_all(self) -> None:
        """Wake all waiters."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for loop, event in waiting.items():
            with suppress(RuntimeError):  # a closed loop has no waiters
                loop.call_soon_threadsafe(event.set)
