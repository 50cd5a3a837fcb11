"""Polling for other processes' changes to classrooms that have listeners in this process."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable

from playground.rooms.room import Room
from playground.rooms.state import RoomNotFoundError, RoomStore
from playground.storage.database import database_errors

_POLL_S = 0.4
_LOG = logging.getLogger("playground")


class RoomWatch:
    """A thread that polls the store for the versions of rooms and refreshes outdated ones.

    Polling works in PostgreSQL and SQLite alike, unlike LISTEN and NOTIFY.

    Args:
        store: The store that all processes share.
        followed: Returns the rooms with listeners in this process.
    """

    def __init__(self, store: RoomStore, followed: Callable[[], Iterable[Room]]) -> None:
        self.store, self.followed = store, followed
        self._wanted = threading.Event()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Poll from now on, for as long as a room has listeners."""
        self._wanted.set()
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._poll_forever, daemon=True)
                self._thread.start()

    def _poll_forever(self) -> None:
        failed = False
        while self._wanted.wait():
            self._wanted.clear()
            rooms = {room.state.code: room for room in self.followed()}
            try:
                self.refresh_rooms(rooms)
                failed = False
            except database_errors() as error:
                if not failed:
                    _LOG.error("rooms of other processes are not seen: %s", type(error).__name__)
                failed = True
            if rooms:
                # One more round after the last listener left, so that other processes learn of it.
                self._wanted.set()
            time.sleep(_POLL_S)

    def refresh_rooms(self, rooms: dict[str, Room]) -> None:
        """Refresh the rooms that have a newer version in the store, and end removed ones.

        Args:
            rooms: Rooms with listeners, by code.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The store does not answer.
            OSError: As above, for a file.
        """
        versions = self.store.sync_listeners({code: room.listeners for code, room in rooms.items()})
        for code, room in rooms.items():
            if versions.get(code, -1) == room.state.version:
                continue
            try:
                newer = self.store.find(code, room.state.version)
            except RoomNotFoundError:
                room.end()
                continue
            if newer is not None:
                room.catch_up(newer)
