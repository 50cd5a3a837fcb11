"""Listeners: the open answer streams of pages and programs, by Gradio session.

Gradio continues an event even if nothing ever fetches its answer, so the playground counts the
streams itself.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

_MAX_REMEMBERED = 4096
"""Closed sessions and announced presses to remember; older ones count as never seen."""


class Listeners:
    """The open streams per session, and the presses that pages have announced."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._left: OrderedDict[str, float] = OrderedDict()
        self._announced: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def open_stream(self, session: str) -> Iterator[None]:
        """Count a stream while it is open."""
        with self._lock:
            self._open[session] += 1
        try:
            yield
        finally:
            with self._lock:
                self._open[session] -= 1
                if not self._open[session]:
                    del self._open[session]
                    self._left.pop(session, None)
                    # At the end, because the oldest are dropped first.
                    self._left[session] = time.monotonic()
                    while len(self._left) > _MAX_REMEMBERED:
                        self._left.popitem(last=False)

    def announce(self, press: str) -> None:
        """Record a press before its event: the page will open its stream as soon as it can."""
        with self._lock:
            self._announced[press] = None
            while len(self._announced) > _MAX_REMEMBERED:
                self._announced.popitem(last=False)

    def is_announced(self, press: str) -> bool:
        """Return whether a page has announced a press."""
        with self._lock:
            return press in self._announced

    def has_listened(self, session: str) -> bool:
        """Return whether the session has or had an open stream."""
        with self._lock:
            return session in self._open or session in self._left

    def count_open(self) -> tuple[int, int]:
        """Return the numbers of open streams and of sessions with one."""
        with self._lock:
            return self._open.total(), len(self._open)

    def idle_s(self, session: str, since: float) -> float:
        """Return the seconds for which a session has had no open stream.

        Args:
            session: the session; the empty one, a caller in this process, always listens.
            since: ``time.monotonic()`` of the request, used if no stream was opened after it.
        """
        with self._lock:
            if not session or session in self._open:
                return 0.0
            return time.monotonic() - max(since, self._left.get(session, since))


LISTENERS = Listeners()
