"""News of a room as server-sent events: the class hears of scenes, its teacher of scenes and figures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from engine.settings import SETTINGS
from playground.rooms.bell import Bell
from playground.rooms.room import Room

_BEAT_S = 15.0
"""How often something is sent where there is no news: what listens no more is noticed."""
_LIFE_S = 120.0
"""How long a stream lasts before the page opens another: what is gone without a word counts no longer as here."""
_BEAT = b": still here\n\n"


def event(name: str, data: Any) -> bytes:
    """Return an event as it is sent."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return f"event: {name}\ndata: {text}\n\n".encode()


ENDED = event("ended", {})


class Viewed(Protocol):
    """What somebody is told of a room."""

    room: Room
    bell: Bell
    pause_s: float
    """How long the next news waits after some."""

    def news(self) -> bytes:
        """Return what has come since it was asked last, all of it the first time."""
        ...


class ClassScene:
    """The scene that a whole class is shown, packed once for all of them."""

    def __init__(self) -> None:
        self._number, self._packed = -1, b""

    def packed(self, room: Room) -> tuple[int, bytes]:
        """Return the number of a room's scene and its event; it is asked about one room alone."""
        number, scene = room.told_class()
        if number != self._number:
            self._number, self._packed = number, event("scene", scene)
        return self._number, self._packed


class ParticipantView:
    """What a participant is told: the scene, and what he has bet on its card himself."""

    pause_s = 0.0

    def __init__(self, room: Room, scene: ClassScene, participant: str) -> None:
        self.room, self.scene, self.participant = room, scene, participant
        self.bell, self._seen = self.room.scene, -1

    def news(self) -> bytes:
        """Return the scene where it is another one."""
        number, packed = self.scene.packed(self.room)
        if number == self._seen:
            return b""
        self._seen = number
        answer = self.room.answer_of(self.participant)
        own = {"card": self.room.state.card, "answer": answer}
        return packed if answer is None else event("mine", own) + packed


class TeacherView:
    """What the teacher is told: the scene with its answer, and the figures of the class."""

    pause_s = 1 / SETTINGS.updates_per_s

    def __init__(self, room: Room) -> None:
        self.room, self.bell = room, room.count
        self._scene = self._figures = -1

    def news(self) -> bytes:
        """Return what is another one of both."""
        found = b""
        number, scene = self.room.told_teacher()
        if number != self._scene:
            self._scene, found = number, event("scene", scene)
        number, figures = self.room.figures()
        # With every scene, too: they may have been told of it before it was.
        if found or number != self._figures:
            self._figures, found = number, found + event("figures", figures)
        return found


async def news_of(view: Viewed, sweep: Callable[[], None]) -> AsyncIterator[bytes]:
    """Yield what somebody is told, until the room ends or it is time for another stream.

    Args:
        view: what it is.
        sweep: ends rooms that are not used any more.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + _LIFE_S
    while True:
        rings = view.bell.next()
        sweep()
        if view.room.ended:
            yield ENDED
            return
        if found := view.news():
            yield found
            await asyncio.sleep(view.pause_s)
        left = until - loop.time()
        if left <= 0:
            return
        try:
            await asyncio.wait_for(rings.wait(), min(_BEAT_S, left))
        except TimeoutError:
            yield _BEAT


class NewsResponse(StreamingResponse):
    """A stream of news.

    Args:
        view: what is told.
        sweep: as of ``news_of``.
        counted: what is open as long as somebody listens.
    """

    def __init__(
        self, view: Viewed, sweep: Callable[[], None], counted: AbstractContextManager[None]
    ) -> None:
        # A proxy that keeps parts back until there are more would keep a class waiting.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(news_of(view, sweep), media_type="text/event-stream", headers=headers)
        self.counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it until one of both sides is gone."""
        with self.counted:
            await super().__call__(scope, receive, send)
