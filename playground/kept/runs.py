"""What was sent of runs, in a database: a server that was started anew shows them again, and goes on with them.

A thread writes; no run ever waits for a disk. Whatever fails here costs the kept run alone.
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

from playground.kept import tables
from playground.kept.database import Database, errors
from playground.kept.presence import Presence

_LOG = logging.getLogger("playground")
MAKING = 1_000_000
"""What the numbers of a run's messages begin with after it was made again, once for every time.

A page may have had more of it than was written down. No number of a later making follows one of an earlier, so every
page sees a gap and asks for the whole.
"""
_SWEPT_S = 60.0
_MOST_AT_ONCE = 256
_BACKLOG_BYTES = 64_000_000
"""What may wait for a slow disk; runs whose messages find no room are not kept."""


@dataclass(frozen=True)
class Begun:
    """A run that is about to begin: what it takes to make it again."""

    run: str
    press: str
    asked: str


@dataclass(frozen=True)
class Sent:
    """One message of a run."""

    run: str
    seq: int
    text: str
    last: bool


@dataclass(frozen=True)
class WrittenRun:
    """What there is of a run.

    Attributes:
        texts: its messages from the first on, each as JSON.
        seq: number of the message that comes next.
        ended: whether the last one is there.
        process: who makes it.
        making: how often somebody has gone on with it.
        lives: whether that process is there.
        press: the name that its page gave to the press that began it, empty for none.
        asked: what the page sent, as JSON; empty for a run that is not made again.
    """

    texts: list[str]
    seq: int
    ended: bool
    process: str
    making: int
    lives: bool
    press: str
    asked: str

    @property
    def over(self) -> bool:
        """Whether nothing comes after its messages."""
        return self.ended or not self.lives


class KeptRuns:
    """Runs in a database; the thread that writes starts with the first one.

    Args:
        database: where.
        age_s: seconds after which a run goes.
        most_bytes: messages of all runs together; the oldest runs go first.
    """

    def __init__(self, database: Database, age_s: float, most_bytes: int) -> None:
        self.database, self.age_s, self.most_bytes = database, age_s, most_bytes
        self.presence = Presence(database)
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Forget what another process has to write."""
        self._lines: queue.SimpleQueue[Begun | Sent | threading.Event] = queue.SimpleQueue()
        self._waiting = 0
        self._left_out: set[str] = set()
        self._failed = False
        self._swept, self._since = 0.0, 0
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def add(self, line: Begun | Sent) -> None:
        """Have something written soon."""
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, daemon=True)
                self._thread.start()
            if line.run in self._left_out:
                return
            if self._waiting + _size(line) > _BACKLOG_BYTES:
                self._left_out.add(line.run)
                return
            self._waiting += _size(line)
        self._lines.put(line)

    def flush(self, within_s: float) -> bool:
        """Wait until what was added is written; return whether it is."""
        if self._thread is None:
            return True
        written = threading.Event()
        self._lines.put(written)
        return written.wait(within_s)

    @property
    def backlog_bytes(self) -> int:
        """Bytes that wait to be written."""
        with self._lock:
            return self._waiting

    def find(self, run: str) -> WrittenRun | None:
        """Return a run; None for one that is not known, or of which a message is missing."""
        runs, messages = tables.RUNS.c, tables.MESSAGES.c
        lives = sa.or_(
            runs.process == self.database.process, runs.process.in_(self.presence.living())
        )
        about = sa.select(
            runs.ended, runs.process, runs.making, lives.label("lives"), runs.press, runs.asked
        )
        about = about.where(runs.id == run, runs.began >= time.time() - self.age_s)
        sent = sa.select(messages.seq, messages.text).where(messages.run == run)
        try:
            with self.database.reading() as db:
                known = db.execute(about).first()
                found = db.execute(sent.order_by(messages.seq)).all()
        except errors():
            return None
        if known is None or [seq % MAKING for seq, _ in found] != list(range(len(found))):
            return None
        following = found[-1].seq + 1 if found else 0
        texts = [text for _, text in found]
        return WrittenRun(
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
        """Take over a run that another process has left; return whether it is this one's now, and nobody else's."""
        runs = tables.RUNS.c
        left = runs.process.not_in(self.presence.living())
        own = sa.update(tables.RUNS).where(
            runs.id == run, runs.process == process, sa.not_(runs.ended), left
        )
        try:
            self.presence.say()
            with self.database.writing() as db:
                taken = db.execute(
                    own.values(process=self.database.process, making=runs.making + 1)
                )
                return taken.rowcount == 1
        except errors():
            return False

    def _write(self) -> None:
        """Write what comes, as it comes, for as long as this process lives."""
        while True:
            batch = self._next()
            lines = [item for item in batch if not isinstance(item, threading.Event)]
            try:
                self.presence.say()
                self._put([line for line in lines if line.run not in self._left_out])
                self._sweep(sum(_size(line) for line in lines))
            except Exception as error:  # a thread that ended would keep no later run either
                self._leave_out(lines, type(error).__name__)
            for item in batch:
                if isinstance(item, threading.Event):
                    item.set()

    def _next(self) -> list[Begun | Sent | threading.Event]:
        """Return what has come, nothing where it is time to look for what has expired."""
        batch = []
        with suppress(queue.Empty):
            batch.append(self._lines.get(timeout=min(_SWEPT_S, self.age_s)))
            while len(batch) < _MOST_AT_ONCE:
                batch.append(self._lines.get_nowait())
        with self._lock:
            self._waiting -= sum(_size(x) for x in batch if not isinstance(x, threading.Event))
        return batch

    def _put(self, lines: list[Begun | Sent]) -> None:
        if not lines:
            return
        with self.database.writing() as db:
            taken = {
                run for run in dict.fromkeys(x.run for x in lines) if not self._own(db, run, lines)
            }
            sent = [x for x in lines if isinstance(x, Sent) and x.run not in taken]
            if sent:
                values = [{"run": x.run, "seq": x.seq, "text": x.text} for x in sent]
                db.execute(sa.insert(tables.MESSAGES), values)
        with self._lock:
            self._left_out |= taken

    def _own(self, db: sa.Connection, run: str, lines: Iterable[Begun | Sent]) -> bool:
        """Write what there is of a run besides its messages; return whether it is still this process's own."""
        own = [line for line in lines if line.run == run]
        begun = next((line for line in own if isinstance(line, Begun)), Begun(run, "", ""))
        new = self.database.insert(tables.RUNS).values(
            id=run,
            process=self.database.process,
            making=0,
            press=begun.press,
            asked=begun.asked,
            began=time.time(),
            ended=any(isinstance(line, Sent) and line.last for line in own),
            bytes=sum(_size(line) for line in own),
        )
        runs, added = tables.RUNS.c, new.excluded
        more = {"ended": sa.or_(runs.ended, added.ended), "bytes": runs.bytes + added.bytes}
        known = new.on_conflict_do_update(
            index_elements=["id"], set_=more, where=runs.process == added.process
        )
        return db.execute(known).rowcount == 1

    def _sweep(self, written: int) -> None:
        """Remove what has expired, and the oldest runs until the rest has room, where it is time to."""
        self._since += written
        if (
            time.monotonic() - self._swept < min(_SWEPT_S, self.age_s)
            and self._since < self.most_bytes / 10
        ):
            return
        self._swept, self._since = time.monotonic(), 0
        runs, messages = tables.RUNS.c, tables.MESSAGES.c
        newest = sa.func.sum(runs.bytes).over(order_by=(runs.began.desc(), runs.id))
        summed = sa.select(runs.id, newest.label("sum")).subquery()
        for gone in (
            sa.select(runs.id).where(runs.began < time.time() - self.age_s),
            sa.select(summed.c.id).where(summed.c.sum > self.most_bytes),
        ):
            with self.database.writing() as db:
                ids = list(db.execute(gone).scalars())
                if ids:
                    db.execute(sa.delete(tables.MESSAGES).where(messages.run.in_(ids)))
                    db.execute(sa.delete(tables.RUNS).where(runs.id.in_(ids)))
        self.database.shrink()

    def _leave_out(self, lines: list[Begun | Sent], why: str) -> None:
        """Keep nothing more of runs of which something was lost."""
        if not self._failed:
            _LOG.error("the journal of runs cannot be written: %s", why)
        self._failed = True
        with self._lock:
            self._left_out.update(line.run for line in lines)
        self.database.let_go()


def _size(line: Begun | Sent) -> int:
    return len(line.asked if isinstance(line, Begun) else line.text)
