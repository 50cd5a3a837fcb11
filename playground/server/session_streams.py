"""Answer streams of Gradio sessions, which several listeners may read completely.

Gradio hands every message of a session to one listener only. A second listener that knows the
session's name would take messages from the page, whose run would then never end. Here one stream per
session is read from Gradio, and each listener gets all of its messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

_MAX_REPLAY_BYTES = 4_000_000
"""Most bytes that are stored for listeners who come later; a page opens its stream at once."""
_MAX_LISTENERS = 8

Answer = Callable[[Any, Any], Awaitable[None]]
"""An ASGI app with its scope: takes ``receive`` and ``send``."""


class ListenerRefusedError(Exception):
    """Another listener is not possible: there are too many, or early messages are gone."""


class SessionStream:
    """One stream from Gradio with its listeners.

    Args:
        answer: answers the first listener's request; called once.
        ended: called at its end.
    """

    def __init__(self, answer: Answer, ended: Callable[[], None]) -> None:
        self._messages: list[Any] = []
        self._dropped = 0
        self._bytes = 0
        self._sent: dict[object, int] = {}
        self._over = False
        self._changed = asyncio.Condition()
        self._left = asyncio.Event()
        self._ended = ended
        self._task = asyncio.create_task(self._read(answer))

    @property
    def is_ending(self) -> bool:
        """Whether all listeners have left, but Gradio may not have noticed yet."""
        return self._left.is_set()

    async def wait_for_end(self) -> None:
        """Wait until Gradio has ended the stream."""
        await asyncio.wait({self._task})

    async def _read(self, answer: Answer) -> None:
        try:
            await answer(self._receive, self._add)
        finally:
            self._ended()
            async with self._changed:
                self._over = True
                self._changed.notify_all()

    async def _receive(self) -> Any:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _add(self, message: Any) -> None:
        async with self._changed:
            self._messages.append(message)
            self._bytes += len(message.get("body", b""))
            self._drop_old_messages()
            self._changed.notify_all()

    def _drop_old_messages(self) -> None:
        """Above the limit, drop what every listener has been sent."""
        while self._bytes > _MAX_REPLAY_BYTES and self._dropped < min(
            self._sent.values(), default=0
        ):
            self._bytes -= len(self._messages.pop(0).get("body", b""))
            self._dropped += 1

    async def serve(self, receive: Any, send: Any) -> None:
        """Send all messages to one more listener until the stream ends or the listener leaves.

        Raises:
            ListenerRefusedError: another listener is not possible.
        """
        if self._dropped or len(self._sent) >= _MAX_LISTENERS:
            raise ListenerRefusedError
        listener = object()
        self._sent[listener] = 0
        sending = asyncio.create_task(self._send_all(listener, send))
        leaving = asyncio.create_task(_wait_for_disconnect(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            # A listener that is gone lets ``send`` raise, which is no error of the stream.
            await asyncio.gather(sending, leaving, return_exceptions=True)
            del self._sent[listener]
            if not self._sent:
                self._left.set()
                await self.wait_for_end()

    async def _send_all(self, listener: object, send: Any) -> None:
        while True:
            async with self._changed:
                await self._changed.wait_for(
                    lambda: self._over or self._sent[listener] < self._dropped + len(self._messages)
                )
                if self._sent[listener] == self._dropped + len(self._messages):
                    return
                message = self._messages[self._sent[listener] - self._dropped]
            await send(message)
            self._sent[listener] += 1


async def _wait_for_disconnect(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


class SessionStreams:
    """The open streams by session."""

    def __init__(self) -> None:
        self._open: dict[str, SessionStream] = {}

    async def serve(self, session: str, answer: Answer, receive: Any, send: Any) -> None:
        """Send a session's messages to one listener; arguments and errors as of ``SessionStream``."""
        stream = self._open.get(session)
        while stream is not None and stream.is_ending:
            await stream.wait_for_end()
            stream = self._open.get(session)
        if stream is None:
            stream = SessionStream(answer, lambda: self._end(session, stream))
            self._open[session] = stream
        await stream.serve(receive, send)

    def _end(self, session: str, stream: SessionStream | None) -> None:
        if self._open.get(session) is stream:
            del self._open[session]
