"""What wakes those who wait for news of a room: one event for all of them, however many they are."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress


class Bell:
    """Rings for everybody who waits at that moment; it may be rung from any thread."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.AbstractEventLoop, asyncio.Event] = {}
        self._lock = threading.Lock()

    def next(self) -> asyncio.Event:
        """Return what is set when it rings the next time.

        Whoever takes it before looking for news misses none.
        """
        loop = asyncio.get_running_loop()
        with self._lock:
            return self._waiting.setdefault(loop, asyncio.Event())

    def ring(self) -> None:
        """Wake all who wait."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for loop, event in waiting.items():
            with suppress(RuntimeError):  # a loop that is closed has nobody left
                loop.call_soon_threadsafe(event.set)
