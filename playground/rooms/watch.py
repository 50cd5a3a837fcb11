"""What other processes do in rooms whose news somebody is told here: looked for while anybody is."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from playground.kept.database import errors
from playground.rooms.room import Room
from playground.rooms.state import Gone, RoomStore

_EVERY_S = 0.4
_LOG = logging.getLogger("playground")


class RoomWatch:
    """A thread that asks a store for the versions of rooms, and brings those that are newer.

    Args:
        store: of all processes.
        followed: returns the rooms whose news somebody is told by this one.
    """

    def __init__(self, store: RoomStore, followed: Callable[[], Iterable[Room]]) -> None:
        self.store, self.followed = store, followed
        self._wanted = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Look from now on, for as long as there is anything to look for."""
        self._wanted.set()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._go_on, daemon=True)
                self._thread.start()

    def _go_on(self) -> None:
        failed = False
        while self._wanted.wait():
            self._wanted.clear()
            rooms = {room.state.code: room for room in self.followed()}
            try:
                self.look(rooms)
                failed = False
            except errors() as error:
                if not failed:
                    _LOG.error("rooms of other processes are not seen: %s", type(error).__name__)
                failed = True
            if rooms:
                # Whoever leaves is told to the others, too: once more after the last one.
                self._wanted.set()
            time.sleep(_EVERY_S)

    def look(self, rooms: dict[str, Room]) -> None:
        """Bring what is newer.

        Args:
            rooms: those that are followed, by their codes.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the store does not answer; so does OSError.
        """
        versions = self.store.listen({code: room.listeners for code, room in rooms.items()})
        for code, room in rooms.items():
            if versions.get(code, -1) == room.state.version:
                continue
            try:
                newer = self.store.find(code, room.state.version)
            except Gone:
                room.end()
                continue
            if newer is not None:
                room.catch_up(newer)
