"""Storage of runs' messages in a database, from which a restarted server shows and continues them.

A thread writes, so no run waits for a disk. An error here only loses the stored copy.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

import sqlalchemy as sa

from playground.storage import tables
from playground.storage.database import Database, database_errors
from playground.storage.presence import ProcessPresence

_LOG = logging.getLogger("playground")
ATTEMPT_STRIDE = 1_000_000
"""Step between the sequence numbers of successive attempts at a run.

A page may have received messages that were not stored. The gap between attempts makes every page
request the whole state.
"""
_SWEEP_INTERVAL_S = 60.0
_MAX_BATCH = 256
_MAX_BACKLOG_BYTES = 64_000_000
"""Most bytes that wait for a slow disk. A run whose message does not fit is not stored at all."""


@dataclass(frozen=True)
class RunStart:
    """The start of a run, with what is needed to repeat it."""

    run: str
    press: str
    asked: str


class RunMessage(str):
    """One message of a run, as JSON text.

    Attributes:
        run: the run's id.
        seq: its number.
        last: whether it is the run's last message.
    """

    run: str
    seq: int
    last: bool

    def __new__(cls, run: str, seq: int, text: str, last: bool) -> RunMessage:
        """Return the text with the run, the number and whether it is the last."""
        made = super().__new__(cls, text)
        made.run, made.seq, made.last = run, seq, last
        return made


@dataclass(frozen=True)
class StoredRun:
    """A run as stored.

    Attributes:
        texts: Its messages in order, each as JSON.
        seq: Number of the next message.
        ended: Whether the last message is stored.
        process: Id of the process that decodes it.
        making: How often it was taken over.
        lives: Whether that process is alive.
        press: The page's id of the press that started it, "" for none.
        asked: The page's request as JSON, "" for a run that cannot be repeated.
    """

    texts: list[RunMessage]
    seq: int
    ended: bool
    process: str
    making: int
    lives: bool
    press: str
    asked: str

    @property
    def is_over(self) -> bool:
        """Whether no more messages will come."""
        return self.ended or not self.lives


class RunStore:
    """Store of runs in a database. Its writer thread starts with the first line.

    Args:
        database: The database.
        age_s: Seconds after which a run is removed.
        most_bytes: Limit for the messages of all runs; the oldest runs are removed first.
    """

    def __init__(self, database: Database, age_s: float, most_bytes: int) -> None:
        self.database, self.age_s, self.most_bytes = database, age_s, most_bytes
        self.presence = ProcessPresence(database)
        self._reset_queue()
        os.register_at_fork(after_in_child=self._reset_queue)

    def _reset_queue(self) -> None:
        """Reset after a fork: the parent writes its own queue."""
        self._lines: queue.SimpleQueue[RunStart | RunMessage | threading.Event] = (
            queue.SimpleQueue()
        )
        self._waiting = 0
        self._left_out: set[str] = set()
        self._failed = False
        self._swept, self._since = 0.0, 0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def add(self, line: RunStart | RunMessage) -> None:
        """Queue a line for the writer thread."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._write_forever, daemon=True)
                self._thread.start()
            if line.run in self._left_out:
                return
            # A run with one missing message would be silently wrong, so all of it is dropped.
            if self._waiting + _line_size(line) > _MAX_BACKLOG_BYTES:
                self._left_out.add(line.run)
                return
            self._waiting += _line_size(line)
        self._lines.put(line)

    def flush(self, within_s: float) -> bool:
        """Wait until all queued lines are written; return False after ``within_s`` seconds."""
        if self._thread is None:
            return True
        written = threading.Event()
        self._lines.put(written)
        return written.wait(within_s)

    @property
    def backlog_bytes(self) -> int:
        """Bytes in the write queue."""
        with self._lock:
            return self._waiting

    def find(self, run: str) -> StoredRun | None:
        """Return a stored run, None if it is unknown or one of its messages is missing."""
        runs, messages = tables.RUNS.c, tables.MESSAGES.c
        lives = sa.or_(
            runs.process == self.database.process,
            runs.process.in_(self.presence.select_alive_ids()),
        )
        about = sa.select(
            runs.ended, runs.process, runs.making, lives.label("lives"), runs.press, runs.asked
        )
        about = about.where(runs.id == run, runs.began >= time.time() - self.age_s)
        sent = sa.select(messages.seq, messages.text).where(messages.run == run)
        try:
            with self.database.read_transaction() as db:
                known = db.execute(about).first()
                found = db.execute(sent.order_by(messages.seq)).all()
        except database_errors():
            return None
        # A missing message would be a hole in the text, so such a run is not shown.
        if known is None or [seq % ATTEMPT_STRIDE for seq, _ in found] != list(range(len(found))):
            return None
        following = found[-1].seq + 1 if found else 0
        final = len(found) - 1 if known.ended else None
        texts = [RunMessage(run, seq, text, at == final) for at, (seq, text) in enumerate(found)]
        return StoredRun(
            texts,
            following,
            bool(known.ended),
            known.process,
            known.making,
            bool(known.lives),
            known.press,
            known.asked,
        )

    def claim(self, run: str, process: str) -> bool:
        """Take over a run whose process is dead; return whether this process now owns it."""
        # One conditional UPDATE: of several claimants exactly one changes the row.
        runs = tables.RUNS.c
        left = runs.process.not_in(self.presence.select_alive_ids())
        own = sa.update(tables.RUNS).where(
            runs.id == run, runs.process == process, sa.not_(runs.ended), left
        )
        try:
            self.presence.start_heartbeat()
            with self.database.write_transaction() as db:
                taken = db.execute(
                    own.values(process=self.database.process, making=runs.making + 1)
                )
                return taken.rowcount == 1
        except database_errors():
            return False

    def _write_forever(self) -> None:
        """Write queued lines until the process ends."""
        while True:
            batch = self._next_batch()
            lines = [item for item in batch if not isinstance(item, threading.Event)]
            try:
                self.presence.start_heartbeat()
                self._write_batch([line for line in lines if line.run not in self._left_out])
                self._sweep(sum(_line_size(line) for line in lines))
            except Exception as error:  # without this thread no later run would be stored
                self._drop_runs(lines, type(error).__name__)
            for item in batch:
                if isinstance(item, threading.Event):
                    item.set()

    def _next_batch(self) -> list[RunStart | RunMessage | threading.Event]:
        """Return the next batch of queued lines, empty when it is time to sweep."""
        batch = []
        with suppress(queue.Empty):
            batch.append(self._lines.get(timeout=min(_SWEEP_INTERVAL_S, self.age_s)))
            while len(batch) < _MAX_BATCH:
                batch.append(self._lines.get_nowait())
        with self._lock:
            self._waiting -= sum(_line_size(x) for x in batch if not isinstance(x, threading.Event))
        return batch

    def _write_batch(self, lines: list[RunStart | RunMessage]) -> None:
        if not lines:
            return
        with self.database.write_transaction() as db:
            # A run that another process took over gets no more messages from this one.
            taken = {
                run
                for run in dict.fromkeys(x.run for x in lines)
                if not self._upsert_run(db, run, lines)
            }
            sent = [x for x in lines if isinstance(x, RunMessage) and x.run not in taken]
            if sent:
                values = [{"run": x.run, "seq": x.seq, "text": str(x)} for x in sent]
                db.execute(sa.insert(tables.MESSAGES), values)
        with self._lock:
            self._left_out |= taken

    def _upsert_run(
        self, db: sa.Connection, run: str, lines: Iterable[RunStart | RunMessage]
    ) -> bool:
        """Insert or update a run's row; return whether this process still owns the run."""
        own = [line for line in lines if line.run == run]
        begun = next((line for line in own if isinstance(line, RunStart)), RunStart(run, "", ""))
        new = self.database.insert(tables.RUNS).values(
            id=run,
            process=self.database.process,
            making=0,
            press=begun.press,
            asked=begun.asked,
            began=time.time(),
            ended=any(isinstance(line, RunMessage) and line.last for line in own),
            bytes=sum(_line_size(line) for line in own),
        )
        runs, added = tables.RUNS.c, new.excluded
        more = {"ended": sa.or_(runs.ended, added.ended), "bytes": runs.bytes + added.bytes}
        known = new.on_conflict_do_update(
            index_elements=["id"], set_=more, where=runs.process == added.process
        )
        return db.execute(known).rowcount == 1

    def _sweep(self, written: int) -> None:
        """Remove expired runs and the oldest ones beyond the limit, at most once per interval."""
        self._since += written
        if (
            time.monotonic() - self._swept < min(_SWEEP_INTERVAL_S, self.age_s)
            and self._since < self.most_bytes / 10
        ):
            return
        self._swept, self._since = time.monotonic(), 0
        runs, messages = tables.RUNS.c, tables.MESSAGES.c
        # Running total from the newest run on: runs beyond the limit are the oldest.
        newest = sa.func.sum(runs.bytes).over(order_by=(runs.began.desc(), runs.id))
        summed = sa.select(runs.id, newest.label("sum")).subquery()
        for gone in (
            sa.select(runs.id).where(runs.began < time.time() - self.age_s),
            sa.select(summed.c.id).where(summed.c.sum > self.most_bytes),
        ):
            with self.database.write_transaction() as db:
                ids = list(db.execute(gone).scalars())
                if ids:
                    db.execute(sa.delete(tables.MESSAGES).where(messages.run.in_(ids)))
                    db.execute(sa.delete(tables.RUNS).where(runs.id.in_(ids)))
        self.database.reclaim_disk_space()

    def _drop_runs(self, lines: list[RunStart | RunMessage], why: str) -> None:
        """Store nothing more of runs that lost a message."""
        if not self._failed:
            _LOG.error("the journal of runs cannot be written: %s", why)
        self._failed = True
        with self._lock:
            self._left_out.update(line.run for line in lines)
        self.database.close_connections()


def _line_size(line: RunStart | RunMessage) -> int:
    return len(line.asked if isinstance(line, RunStart) else line)
