"""Server-sent events of a classroom: scenes for the class; scenes and figures for the teacher."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from engine.messages import to_json
from engine.settings import SETTINGS
from playground.rooms.notifier import Notifier
from playground.rooms.room import Room

_HEARTBEAT_S = 15.0
"""Seconds between heartbeats without news, so that closed connections are noticed."""
_MAX_STREAM_S = 120.0
"""Lifetime of a stream; the page then opens another.

Phones that lost their connection stop counting as present.
"""
_HEARTBEAT = b": still here\n\n"


def sse_event(name: str, data: Any) -> bytes:
    """Return a server-sent event as bytes."""
    text = to_json(data)
    return f"event: {name}\ndata: {text}\n\n".encode()


ENDED_EVENT = sse_event("ended", {})


class RoomView(Protocol):
    """A listener's view of a room."""

    room: Room
    bell: Notifier
    pause_s: float
    """Least seconds between two sends."""

    def pending_events(self) -> bytes:
        """Return the events since the last call; everything the first time."""
        ...


class ClassScene:
    """The scene of a class, serialised once for all participants."""

    def __init__(self) -> None:
        self._number, self._packed = -1, b""

    def packed_event(self, room: Room) -> tuple[int, bytes]:
        """Return the number and event of the room's scene. One instance serves one room only."""
        number, scene = room.class_scene()
        if number != self._number:
            self._number, self._packed = number, sse_event("scene", scene)
        return self._number, self._packed


class ParticipantView:
    """A participant's view: the scene and the participant's own bet."""

    pause_s = 0.0

    def __init__(self, room: Room, scene: ClassScene, participant: str) -> None:
        self.room, self.scene, self.participant = room, scene, participant
        self.bell, self._seen = self.room.scene, -1

    def pending_events(self) -> bytes:
        """Return the scene if it has changed, after the own bet."""
        number, packed = self.scene.packed_event(self.room)
        if number == self._seen:
            return b""
        self._seen = number
        answer = self.room.answer_of(self.participant)
        own = {"card": self.room.state.card, "answer": answer}
        return packed if answer is None else sse_event("mine", own) + packed


class TeacherView:
    """The teacher's view: the scene with its answer, and the figures of the class."""

    # Bounds the updates a second, however fast the bets come.
    pause_s = 1 / SETTINGS.updates_per_s

    def __init__(self, room: Room) -> None:
        self.room, self.bell = room, room.count
        self._scene = self._figures = -1

    def pending_events(self) -> bytes:
        """Return the scene and figures that have changed."""
        found = b""
        number, scene = self.room.teacher_scene()
        if number != self._scene:
            self._scene, found = number, sse_event("scene", scene)
        number, figures = self.room.figures()
        # Figures follow every scene: they may have been sent before it.
        if found or number != self._figures:
            self._figures, found = number, found + sse_event("figures", figures)
        return found


async def stream_news(view: RoomView, sweep: Callable[[], None]) -> AsyncIterator[bytes]:
    """Yield a view's events until the room ends or the stream's lifetime is over.

    Args:
        view: The listener's view.
        sweep: Ends idle rooms.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + _MAX_STREAM_S
    while True:
        rings = view.bell.next_event()
        sweep()
        if view.room.ended:
            yield ENDED_EVENT
            return
        if found := view.pending_events():
            yield found
            await asyncio.sleep(view.pause_s)
        left = until - loop.time()
        if left <= 0:
            return
        try:
            await asyncio.wait_for(rings.wait(), min(_HEARTBEAT_S, left))
        except TimeoutError:
            yield _HEARTBEAT


class NewsResponse(StreamingResponse):
    """Streaming response with a view's events.

    Args:
        view: The listener's view.
        sweep: As in ``stream_news``.
        counted: Context that is open while the stream is.
    """

    def __init__(
        self, view: RoomView, sweep: Callable[[], None], counted: AbstractContextManager[None]
    ) -> None:
        # X-Accel-Buffering: a proxy that buffers would delay the events.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(stream_news(view, sweep), media_type="text/event-stream", headers=headers)
        self.counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream until either side closes it."""
        with self.counted:
            await super().__call__(scope, receive, send)
