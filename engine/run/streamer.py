"""A bounded queue from the decoding thread to its reader; also usable as a generate() streamer.

Unlike transformers' TextIteratorStreamer it never hangs: an error in the producer reaches the
reader, and a reader that leaves stops the producer.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from typing import Any

from engine.errors import Cancelled

_END = object()
NOTHING = object()
"""Returned by ``take`` after a timeout."""
_POLL_S = 0.01


class StreamEnded(Exception):
    """The producer has ended."""


class QueueStreamer:
    """A queue with one producer thread and one reader.

    Args:
        maxsize: items that may wait; a full queue makes the producer wait (back-pressure). None for
            no limit: the producer checks ``size`` itself.

    ``put`` accepts anything; tensors become lists of ids, so that the object can be given to
    ``generate(streamer=...)``, which calls ``put(ids)`` and ``end()``.
    """

    def __init__(self, maxsize: int | None = 256) -> None:
        # SimpleQueue.put() is one call in C; queue.Queue's takes longer than most of a record.
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._maxsize = maxsize
        # An end or error that take_available met: take() has to deliver it after the items before it.
        self._put_off: Any = None
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        """Whether the reader has left."""
        return self._closed.is_set()

    @property
    def size(self) -> int:
        """Number of waiting items."""
        return self._items.qsize()

    def put(self, item: Any) -> None:
        """Add an item, waiting while the queue is full.

        Raises:
            Cancelled: the reader has left.
        """
        # transformers gives tensors of (1, length) and then (1,); a reader gets lists of ids.
        self._send(item.tolist() if hasattr(item, "tolist") else item)

    def end(self) -> None:
        """Mark the end; never raises."""
        self._finish(_END)

    def fail(self, error: BaseException) -> None:
        """Send an error that the reader gets raised; never raises here."""
        self._finish(_Error(error))

    def close(self) -> None:
        """Called by the reader: stop the producer at its next ``put``."""
        self._closed.set()

    def __iter__(self) -> Generator[Any, None, None]:
        while True:
            try:
                yield self.take()
            except StreamEnded:
                return

    def take(self, within_s: float | None = None) -> Any:
        """Return the next item, or NOTHING after a timeout.

        Args:
            within_s: seconds to wait; None for no timeout.

        Raises:
            StreamEnded: the producer has ended.
            BaseException: an error sent with ``fail``.
        """
        item, self._put_off = self._put_off, None
        if item is None:
            try:
                item = self._items.get(timeout=within_s)
            except queue.Empty:
                return NOTHING
        if item is _END:
            # Put back, so that a second call ends as well.
            self._items.put(_END)
            raise StreamEnded
        if isinstance(item, _Error):
            raise item.error
        return item

    def take_available(self) -> list[Any]:
        """Return the items that are available now; the end stays in the queue."""
        items = []
        while self._put_off is None:
            try:
                item = self._items.get_nowait()
            except queue.Empty:
                break
            if item is _END or isinstance(item, _Error):
                self._put_off = item
            else:
                items.append(item)
        return items

    def _finish(self, item: object) -> None:
        try:
            self._send(item)
        except Cancelled:
            return

    def _send(self, item: object) -> None:
        while not self._closed.is_set():
            if self._maxsize is None or self._items.qsize() < self._maxsize:
                return self._items.put(item)
            # SimpleQueue has no limit and nothing to wait for, so a full queue is polled.
            self._closed.wait(_POLL_S)
        raise Cancelled


class _Error:
    def __init__(self, error: BaseException) -> None:
        self.error = error
