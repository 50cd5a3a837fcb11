"""Who still listens: the streams that pages and programs hold open, by what Gradio calls their session.

Gradio goes on with what was asked for even where nobody ever fetches the answer.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

_REMEMBERED = 4096
"""Sessions that were left; whoever asks about an older one is told that nobody came."""


class Listeners:
    """Sessions and how many streams each has open, and the presses that pages have announced."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()
        self._left: OrderedDict[str, float] = OrderedDict()
        self._announced: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def listening(self, session: str) -> Iterator[None]:
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
                    self._left[session] = time.monotonic()
                    while len(self._left) > _REMEMBERED:
                        self._left.popitem(last=False)

    def announce(self, press: str) -> None:
        """Note that a page is about to ask for something: it opens its stream as soon as it can."""
        with self._lock:
            self._announced[press] = None
            while len(self._announced) > _REMEMBERED:
                self._announced.popitem(last=False)

    def announced(self, press: str) -> bool:
        """Return whether a page has announced a press."""
        with self._lock:
            return press in self._announced

    def came(self, session: str) -> bool:
        """Return whether somebody has ever listened."""
        with self._lock:
            return session in self._open or session in self._left

    def open(self) -> tuple[int, int]:
        """Return how many streams are open, and of how many sessions."""
        with self._lock:
            return self._open.total(), len(self._open)

    def alone_s(self, session: str, since: float) -> float:
        """Return for how many seconds nobody has listened.

        Args:
            session: whose streams; the empty one of a program within this process always listens.
            since: ``time.monotonic()`` of when it was asked for, where nobody has come.
        """
        with self._lock:
            if not session or session in self._open:
                return 0.0
            return time.monotonic() - max(since, self._left.get(session, since))


LISTENERS = Listeners()
