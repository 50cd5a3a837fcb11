"""Heartbeats of the processes that share a database."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

import sqlalchemy as sa

from engine.settings import SETTINGS
from playground.storage import tables
from playground.storage.database import Database, database_errors

_LOG = logging.getLogger("playground")
_RETENTION_FACTOR = 100
"""A dead process stays in the table for this many times ``gone_s``."""


class ProcessPresence:
    """The heartbeat of this process in a shared database.

    Args:
        database: The database.
        gone_s: Seconds without a heartbeat after which a process counts as dead.
    """

    def __init__(self, database: Database, gone_s: float = SETTINGS.process_gone_s) -> None:
        self.database, self.gone_s = database, gone_s
        self._reset_state()
        os.register_at_fork(after_in_child=self._reset_state)

    def _reset_state(self) -> None:
        """Reset after a fork. The child shares the parent's id in the database."""
        self._lock = threading.Lock()
        self._beat_lock = threading.Lock()
        self._left = threading.Event()
        self._thread: threading.Thread | None = None

    def start_heartbeat(self) -> None:
        """Send a heartbeat now and start the thread that repeats it; nothing if it runs already.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The database refuses or cannot be reached.
            OSError: As above, for a file.
        """
        with self._lock:
            if self._thread is not None or self._left.is_set():
                return
            self._send_heartbeat()
            self._thread = threading.Thread(target=self._beat_until_exit, daemon=True)
            self._thread.start()

    def announce_exit(self) -> None:
        """Announce that this process ends, so that others can take over its runs at once."""
        with self._lock:
            self._left.set()
            if self._thread is None:
                return
        own = tables.PROCESSES.c.id == self.database.process
        try:
            # A heartbeat that is under way would bring the row back.
            with self._beat_lock, self.database.write_transaction() as db:
                db.execute(sa.delete(tables.PROCESSES).where(own))
        except database_errors() as error:
            _LOG.error("that this process ends is not known: %s", type(error).__name__)

    def select_alive_ids(self) -> sa.Select[Any]:
        """Return the SELECT for the ids of all living processes."""
        processes = tables.PROCESSES.c
        return sa.select(processes.id).where(processes.seen > self.database.now() - self.gone_s)

    def _beat_until_exit(self) -> None:
        while not self._left.wait(self.gone_s / 4):
            try:
                self._send_heartbeat()
            except database_errors() as error:
                _LOG.error("that this process is there is not known: %s", type(error).__name__)

    def _send_heartbeat(self) -> None:
        processes, now = tables.PROCESSES, self.database.now()
        here = self.database.insert(processes).values(id=self.database.process, seen=now)
        with self._beat_lock, self.database.write_transaction() as db:
            if self._left.is_set():
                # A heartbeat after ``leave`` would make an ended process look alive.
                return
            db.execute(here.on_conflict_do_update(index_elements=["id"], set_={"seen": now}))
            old = processes.c.seen < now - self.gone_s * _RETENTION_FACTOR
            db.execute(sa.delete(processes).where(old))
