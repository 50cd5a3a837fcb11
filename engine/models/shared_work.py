"""Work that several callers want at once: it is done once, and all of them wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any

from engine.errors import BusyError, Cancelled

ByteProgress = Callable[[int, int], None]
"""Called with the bytes done and the total bytes (0 if not known yet)."""
_POLL_S = 0.05


class SharedWork:
    """Pieces of work by key, each in a thread of its own while somebody waits for it.

    Attributes:
        active: key -> the work that somebody waits for.
        lock: held while ``active`` changes.
    """

    def __init__(self) -> None:
        self.active: dict[str, _Work] = {}
        self.lock = threading.Lock()

    def run(
        self,
        key: str,
        work: Callable[[ByteProgress], Any],
        cancelled: threading.Event | None = None,
        tell: ByteProgress | None = None,
        most: int | None = None,
        busy: str = "",
    ) -> Any:
        """Return what some work returns; begin it unless another caller waits for it already.

        Args:
            key: the same for callers that want the same work.
            work: called in a thread with a function that it must call regularly with its progress; that
                raises Cancelled once nobody waits.
            cancelled: this caller stops waiting when it is set.
            tell: called with the progress of the work, whoever began it.
            most: most pieces of work at once, None for no limit.
            busy: message of the BusyError.

        Raises:
            BusyError: ``most`` others are active.
            Cancelled: ``cancelled`` was set.
        """
        with self.lock:
            shared = self.active.get(key)
            if shared is None and most is not None and len(self.active) >= most:
                raise BusyError(busy)
            if shared is None:
                shared = self.active[key] = _Work()
                threading.Thread(target=shared.run, args=(work,), daemon=True).start()
            else:
                shared.waiting += 1
        reported = None
        try:
            while not wait([shared.result], timeout=_POLL_S).done:
                if cancelled is not None and cancelled.is_set():
                    raise Cancelled
                if tell is not None and reported != shared.progress:
                    reported = shared.progress
                    tell(*reported)
            return shared.result.result()
        finally:
            with self.lock:
                shared.waiting -= 1
                # This work ends at its next report, so a later caller must start another.
                if not shared.waiting:
                    del self.active[key]


class _Work:
    """A piece of work, how far it is and how many callers wait for it."""

    def __init__(self) -> None:
        self.waiting = 1
        self.progress = 0, 0
        self.result: Future[Any] = Future()

    def run(self, work: Callable[[ByteProgress], Any]) -> None:
        """Do the work in this thread."""
        try:
            self.result.set_result(work(self._report))
        except BaseException as error:
            # For the callers who wait: in this thread nobody would see it.
            self.result.set_exception(error)

    def _report(self, done: int, total: int) -> None:
        # The last caller has left.
        if not self.waiting:
            raise Cancelled
        self.progress = done, total
