"""Deadlines of connections: for a whole request, and for an answer that the client does not read."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from uvicorn import config
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from engine.settings import SETTINGS

_MAX_OPEN_FILES = 65_536


class IdleTimeoutProtocol(AutoHTTPProtocol):  # type: ignore[misc,valid-type]
    """uvicorn's HTTP protocol with deadlines of ``max_body_s`` seconds.

    One is for request headers, as uvicorn itself has a timeout between two requests only. The other
    is for a client that reads nothing of its answer, whose memory and slots would never be freed.
    """

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    cycle: Any
    _late: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Start the timer for the first request."""
        super().connection_made(transport)
        self._update_timer()

    def data_received(self, data: bytes) -> None:
        """Keep the timer running until the request is complete."""
        super().data_received(data)
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        self._cancel_timer()
        self._cancel_unread()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the timer for a client that reads nothing: the buffer for it is full."""
        super().pause_writing()
        # Closing would wait until the client has read the buffer.
        self._unread = self.loop.call_later(SETTINGS.max_body_s, self.transport.abort)

    def resume_writing(self) -> None:
        """Cancel the timer: the client reads."""
        self._cancel_unread()
        super().resume_writing()

    def _cancel_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _update_timer(self) -> None:
        if not self._is_idle():
            self._cancel_timer()
        elif self._late is None:
            self._late = self.loop.call_later(SETTINGS.max_body_s, self._close)

    def _is_idle(self) -> bool:
        """Return whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def _cancel_timer(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close(self) -> None:
        self._late = None
        if self._is_idle():
            self.transport.close()


def install_idle_timeout() -> None:
    """Install the protocol for all uvicorn servers of this process; raise the open-file limit."""
    # uvicorn looks its protocol up by this name; Gradio creates the server.
    config.HTTP_PROTOCOLS["auto"] = f"{__name__}:{IdleTimeoutProtocol.__name__}"
    with contextlib.suppress(ImportError, ValueError, OSError):
        # The module does not exist on Windows.
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _MAX_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_OPEN_FILES)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
