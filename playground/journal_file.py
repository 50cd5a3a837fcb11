"""What was sent of runs, on disk: a server that was started anew shows them again.

A thread writes; no run ever waits for a disk. Whatever fails here costs the kept run alone.
"""

from __future__ import annotations

import logging
import os
import queue
import sqlite3
import threading
import time
import uuid
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

_LOG = logging.getLogger("playground")
_SCHEMA = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA secure_delete = ON;
CREATE TABLE IF NOT EXISTS runs (
  id TEXT PRIMARY KEY, process TEXT NOT NULL, began REAL NOT NULL, ended INTEGER NOT NULL, bytes INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS messages (
  run TEXT NOT NULL, seq INTEGER NOT NULL, text TEXT NOT NULL, PRIMARY KEY (run, seq)
) WITHOUT ROWID;
"""
_EXPIRED = "SELECT id FROM runs WHERE began < ?"
_BEYOND = (
    "SELECT id FROM (SELECT id, SUM(bytes) OVER (ORDER BY began DESC, id) AS sum FROM runs)"
    " WHERE sum > ?"
)
_SWEPT_S = 60.0
_MOST_AT_ONCE = 256
_BUSY_S = 5.0
_BACKLOG_BYTES = 64_000_000
"""What may wait for a slow disk; runs whose messages find no room are not kept."""

PROCESS = uuid.uuid4().hex
"""This server; a process that it forks for a GPU counts as the same."""


@dataclass(frozen=True)
class Sent:
    """One message of a run."""

    run: str
    seq: int
    text: str
    last: bool


class JournalFile:
    """A database of messages; its thread starts with the first one.

    Args:
        path: the file; its folder is made for its owner alone, and so is it.
        age_s: seconds after which a run goes.
        most_bytes: messages of all runs together; the oldest runs go first.
    """

    def __init__(self, path: Path, age_s: float, most_bytes: int) -> None:
        self.path, self.age_s, self.most_bytes = path, age_s, most_bytes
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Forget what another process has to write."""
        self._lines: queue.SimpleQueue[Sent | threading.Event] = queue.SimpleQueue()
        self._waiting = 0
        self._left_out: set[str] = set()
        self._failed = False
        self._swept, self._since = 0.0, 0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def add(self, line: Sent) -> None:
        """Have a message written soon."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, daemon=True)
                self._thread.start()
            if line.run in self._left_out:
                return
            if self._waiting + len(line.text) > _BACKLOG_BYTES:
                self._left_out.add(line.run)
                return
            self._waiting += len(line.text)
        self._lines.put(line)

    def flush(self, within_s: float) -> bool:
        """Wait until what was added is written; return whether it is."""
        if self._thread is None:
            return True
        written = threading.Event()
        self._lines.put(written)
        return written.wait(within_s)

    def read(self, run: str) -> tuple[list[str], bool]:
        """Return the messages of a run from its first on, and whether nothing comes after them.

        It is empty for a run that is not known; what another server did not bring to its end has ended.
        """
        try:
            with closing(sqlite3.connect(self._uri("ro"), uri=True, timeout=_BUSY_S)) as db:
                about = db.execute(
                    "SELECT process, ended FROM runs WHERE id = ? AND began >= ?",
                    [run, time.time() - self.age_s],
                ).fetchone()
                rows = db.execute(
                    "SELECT seq, text FROM messages WHERE run = ? ORDER BY seq", [run]
                ).fetchall()
        except sqlite3.Error:
            return [], True
        if about is None or [seq for seq, _ in rows] != list(range(len(rows))):
            return [], True
        process, ended = about
        return [text for _, text in rows], bool(ended) or process != PROCESS

    def _uri(self, mode: str) -> str:
        return f"{self.path.absolute().as_uri()}?mode={mode}"

    def _write(self) -> None:
        """Write what comes, as it comes, for as long as this process lives."""
        db: sqlite3.Connection | None = None
        while True:
            batch = self._next()
            lines = [item for item in batch if isinstance(item, Sent)]
            try:
                db = db or self._open()
                self._put(db, lines)
                self._sweep(db, sum(len(line.text) for line in lines))
            except Exception as error:  # a thread that ended would keep no later run either
                self._leave_out(db, lines, type(error).__name__)
                db = None
            for item in batch:
                if isinstance(item, threading.Event):
                    item.set()

    def _next(self) -> list[Sent | threading.Event]:
        """Return what has come, nothing where it is time to look for what has expired."""
        batch = []
        with suppress(queue.Empty):
            batch.append(self._lines.get(timeout=min(_SWEPT_S, self.age_s)))
            while len(batch) < _MOST_AT_ONCE:
                batch.append(self._lines.get_nowait())
        with self._lock:
            self._waiting -= sum(len(item.text) for item in batch if isinstance(item, Sent))
        return batch

    def _open(self) -> sqlite3.Connection:
        """Return a connection to the file; one that is damaged is begun anew: nothing in it is for ever."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        try:
            return self._connected()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            for end in ("", "-wal", "-shm"):
                self.path.with_name(self.path.name + end).unlink(missing_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            return self._connected()

    def _connected(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._uri("rw"), uri=True, timeout=_BUSY_S)
        db.executescript(_SCHEMA)
        return db

    def _put(self, db: sqlite3.Connection, lines: list[Sent]) -> None:
        lines = [line for line in lines if line.run not in self._left_out]
        with db:
            for line in lines:
                db.execute(
                    "INSERT INTO runs VALUES (?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE"
                    " SET ended = max(ended, excluded.ended), bytes = bytes + excluded.bytes",
                    [line.run, PROCESS, time.time(), line.last, len(line.text)],
                )
            db.executemany(
                "INSERT INTO messages VALUES (?, ?, ?)", [(x.run, x.seq, x.text) for x in lines]
            )

    def _sweep(self, db: sqlite3.Connection, written: int) -> None:
        """Remove what has expired, and the oldest runs until the rest has room, where it is time to."""
        self._since += written
        if (
            time.monotonic() - self._swept < min(_SWEPT_S, self.age_s)
            and self._since < self.most_bytes / 10
        ):
            return
        self._swept, self._since = time.monotonic(), 0
        for query, bound in (
            (_EXPIRED, time.time() - self.age_s),
            (_BEYOND, self.most_bytes),
        ):
            with db:
                gone = db.execute(query, [bound]).fetchall()
                db.executemany("DELETE FROM messages WHERE run = ?", gone)
                db.executemany("DELETE FROM runs WHERE id = ?", gone)
        db.execute("PRAGMA incremental_vacuum").fetchall()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def _leave_out(self, db: sqlite3.Connection | None, lines: list[Sent], why: str) -> None:
        """Keep nothing more of runs of which something was lost."""
        if not self._failed:
            _LOG.error("the journal of runs cannot be written: %s", why)
        self._failed = True
        with self._lock:
            self._left_out.update(line.run for line in lines)
        if db is not None:
            with suppress(sqlite3.Error):
                db.close()
