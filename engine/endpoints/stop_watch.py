"""Ends a request that is under way: when it takes too long, or when its run is stopped."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from engine.errors import Cancelled

_LOOK_S = 0.05
_OPENED = ("connection.connect_tcp.complete", "connection.start_tls.complete")


class StopWatch:
    """Shuts a connection down from another thread, as a blocked read notices nothing else.

    Args:
        cancelled: set to end the request.
    """

    def __init__(self, cancelled: threading.Event) -> None:
        self.cancelled = cancelled
        # A request may begin while a stream goes on, on a connection of its own.
        self._sockets: list[socket.socket] = []

    def see_connection(self, event: str, info: Mapping[str, Any]) -> None:
        """Remember the socket of a connection; a trace extension of httpx."""
        if event in _OPENED:
            self._sockets.append(info["return_value"].get_extra_info("socket"))

    def raise_if_stopped(self) -> None:
        """Raise Cancelled if the run was stopped."""
        if self.cancelled.is_set():
            raise Cancelled from None

    @contextmanager
    def limit(self, until: float) -> Iterator[None]:
        """Shut the connection down at a time of ``time.monotonic()``, or as soon as the run is stopped."""
        self.raise_if_stopped()
        done = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(done, until), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()

    def _watch(self, done: threading.Event, until: float) -> None:
        while not done.wait(_LOOK_S):
            over = self.cancelled.is_set() or time.monotonic() >= until
            # The connection may not be there yet, so the loop goes on.
            for connection in self._sockets if over else ():
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
