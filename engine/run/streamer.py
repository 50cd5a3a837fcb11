"""A bounded channel from the decoding thread to its reader; also a drop-in generate() streamer.

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
"""What ``take`` returns when nothing has come in time."""
_POLL_S = 0.01


class Ended(Exception):
    """Nothing more comes."""


class QueueStreamer:
    """Items put by one thread, iterated by another.

    Args:
        maxsize: items that may wait; a full queue makes the producer wait (back-pressure). None is as many
            as come: the producer looks at ``size`` itself.

    ``put`` accepts anything; tensors become lists of ids, so that the object can be given to
    ``generate(streamer=...)``, which calls ``put(ids)`` and ``end()``.
    """

    def __init__(self, maxsize: int | None = 256) -> None:
        # Its put() is one call in C: a queue.Queue's, with two waits, took longer than most of a record.
        self._items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._maxsize = maxsize
        self._put_off: Any = None
        self._closed = threading.Event()

    @property
    def closed(self) -> bool:
        """Whether the reader has left."""
        return self._closed.is_set()

    @property
    def size(self) -> int:
        """How many items wait."""
        return self._items.qsize()

    def put(self, item: Any) -> None:
        """Hand over an item, waiting while the queue is full.

        Raises:
            Cancelled: the reader has left.
        """
        self._send(item.tolist() if hasattr(item, "tolist") else item)

    def end(self) -> None:
        """Say that nothing more comes; never raises."""
        self._finish(_END)

    def fail(self, error: BaseException) -> None:
        """Pass an error to the reader, who gets it raised; never raises here."""
        self._finish(_Error(error))

    def close(self) -> None:
        """Called by the reader: stop the producer at its next ``put``."""
        self._closed.set()

    def __iter__(self) -> Generator[Any, None, None]:
        while True:
            try:
                yield self.take()
            except Ended:
                return

    def take(self, within_s: float | None = None) -> Any:
        """Return the next item, NOTHING when none has come in time.

        Args:
            within_s: seconds to wait; None waits for as long as it takes.

        Raises:
            Ended: nothing more comes.
        """
        item, self._put_off = self._put_off, None
        if item is None:
            try:
                item = self._items.get(timeout=within_s)
            except queue.Empty:
                return NOTHING
        if item is _END:
            # It stays in line: whoever asks again is answered again.
            self._items.put(_END)
            raise Ended
        if isinstance(item, _Error):
            raise item.error
        return item

    def waiting(self) -> list[Any]:
        """Return the items that are there already, without waiting; the end stays in line."""
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

    def _finish(self, item: Any) -> None:
        try:
            self._send(item)
        except Cancelled:
            return

    def _send(self, item: Any) -> None:
        while not self._closed.is_set():
            if self._maxsize is None or self._items.qsize() < self._maxsize:
                return self._items.put(item)
            self._closed.wait(_POLL_S)
        raise Cancelled


class _Error:
    def __init__(self, error: BaseException) -> None:
        self.error = error
