"""One database by its address: a file of SQLite for one machine, or a server for several."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa

from engine.settings import SETTINGS
from playground.kept import tables

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert

_FILE = "sqlite:///"
_BUSY_S = 5.0
_SERVER_S = 5
"""How long a server may take to let somebody in."""
_LOCK = 0x6465636F
"""Of a server, what is held while tables are made: two processes may start at once."""
_COUNTED = {"preserve_rowcount": True}
"""How many rows an insertion wrote is else not known of every database."""
_EPOCH_DAY = 2440587.5
_PRAGMAS = ("journal_mode = WAL", "synchronous = NORMAL", "secure_delete = ON", "foreign_keys = ON")

PROCESS = uuid.uuid4().hex
"""This server; a process that it forks for a GPU counts as the same."""


class Database:
    """Connections to one database, made when they are first used, and by every process for itself.

    Args:
        address: path of a file, whose folder is made for its owner alone, as is the file; or what SQLAlchemy
            calls a database by, ``postgresql+psycopg://…`` or ``sqlite:///…``.
        process: what this process is called in it.

    Attributes:
        file: the path; None where it is a server.
    """

    def __init__(self, address: str, process: str = PROCESS) -> None:
        self.address, self.process = address, process
        own = "://" not in address or address.startswith(_FILE)
        self.file = Path(address.removeprefix(_FILE)).expanduser().absolute() if own else None
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Forget the connections of another process, without a word to whom they lead to."""
        self._engine: sa.Engine | None = None
        self._lock, self._turn = threading.Lock(), threading.Lock()

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Connect for changes that are made whole, or not at all.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: the database cannot be reached, or refuses.
            OSError: the file cannot be made.
        """
        # A file takes one writer at a time: who waits here has his turn sooner than who asks it again and again.
        with self._turn if self.file else contextlib.nullcontext():
            engine = self._connected().execution_options(begins="BEGIN IMMEDIATE")
            with engine.begin() as connection:
                yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Connect for a look, which waits for no writer; it raises as ``writing`` does."""
        with self._connected().begin() as connection:
            yield connection

    def let_go(self) -> None:
        """Close what is open; the next use looks at the database anew."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    def shrink(self) -> None:
        """Give the room of what was removed from a file back to the disk; a server does so by itself."""
        if self.file:
            with self._turn, contextlib.closing(self._connected().raw_connection()) as raw:
                for pragma in ("incremental_vacuum", "wal_checkpoint(TRUNCATE)"):
                    asking = raw.cursor()
                    asking.execute(f"PRAGMA {pragma}")
                    asking.fetchall()

    def insert(self, table: sa.Table) -> Insert:
        """Return an insertion that can say what is done where the row is there already."""
        if self.file:
            from sqlalchemy.dialects import sqlite

            # Both write it alike.
            return sqlite.insert(table).execution_options(**_COUNTED)  # pyright: ignore[reportReturnType]
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).execution_options(**_COUNTED)

    def now(self) -> sa.ColumnElement[float]:
        """Return the seconds of the database's own clock, the same for all who share it."""
        if self.file:
            return (sa.func.julianday("now") - _EPOCH_DAY) * 86400.0
        return sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.Float)

    def _connected(self) -> sa.Engine:
        with self._lock:
            if self._engine is None:
                self._engine = self._of_file(self.file) if self.file else self._of_server()
            return self._engine

    def _of_server(self) -> sa.Engine:
        limit = {"connect_timeout": _SERVER_S} if "postgresql" in self.address else {}
        engine = sa.create_engine(self.address, pool_pre_ping=True, connect_args=limit)
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            tables.METADATA.create_all(connection)
        return engine

    def _of_file(self, path: Path) -> sa.Engine:
        """Return what connects to a file; one that is damaged or of another form is begun anew."""
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        if not _is_ours(path):
            for end in ("", "-wal", "-shm"):
                path.with_name(path.name + end).unlink(missing_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        engine = sa.create_engine(
            "sqlite://", creator=lambda: _open(path), poolclass=sa.pool.QueuePool
        )
        sa.event.listen(engine, "begin", _begin)  # pyright: ignore[reportAttributeAccessIssue]
        with engine.execution_options(begins="BEGIN IMMEDIATE").begin() as connection:
            tables.METADATA.create_all(connection)
            connection.exec_driver_sql(f"PRAGMA user_version = {tables.FORM}")
        return engine


def _open(path: Path) -> sqlite3.Connection:
    """Return a connection whose transactions begin when they are told to."""
    uri = f"{path.as_uri()}?mode=rw"
    db = sqlite3.connect(
        uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
    )
    try:
        # Of a new file alone, and before anything else.
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        for pragma in _PRAGMAS:
            db.execute(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        db.close()
        raise
    return db


def _begin(connection: sa.Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begins", "BEGIN"))


def _is_ours(path: Path) -> bool:
    """Return whether a file is a whole database of this form, or still empty.

    Raises:
        sqlite3.OperationalError: it cannot be read now; that does not make it damaged.
    """
    try:
        with contextlib.closing(_open(path)) as db:
            [form] = db.execute("PRAGMA user_version").fetchone()
            [held] = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return False
    return form == tables.FORM or not held


def database_of(address: str) -> Database | None:
    """Return the database of an address, None for the empty one: then nothing outlives the process."""
    return Database(address) if address else None


DATABASE = database_of(SETTINGS.journal)


def errors() -> tuple[type[Exception], ...]:
    """Return what a use of a database may raise."""
    return (sa.exc.SQLAlchemyError, sqlite3.Error, OSError)  # pyright: ignore[reportAttributeAccessIssue]
