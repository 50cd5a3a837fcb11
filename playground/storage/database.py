"""Database access: a SQLite file for one machine, or a database server for several."""

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
from playground.storage import tables

if TYPE_CHECKING:
    from sqlalchemy.dialects.postgresql import Insert

_SQLITE_PREFIX = "sqlite:///"
_BUSY_TIMEOUT_S = 5.0
_CONNECT_TIMEOUT_S = 5
"""Seconds to wait for a connection to a server."""
_CREATE_LOCK_ID = 0x6465636F
"""Advisory lock id of a server while tables are created, since two processes may start at once."""
_ROW_COUNT_OPTION = {"preserve_rowcount": True}
"""Execution option without which some databases do not report the rows that an INSERT wrote."""
_EPOCH_DAY = 2440587.5
# WAL: readers do not wait for the writer. secure_delete: deleted texts are overwritten.
_PRAGMAS = ("journal_mode = WAL", "synchronous = NORMAL", "secure_delete = ON", "foreign_keys = ON")

PROCESS_ID = uuid.uuid4().hex
"""Id of this server process. A process that it forks for a GPU counts as the same."""


class Database:
    """Connections to one database, opened on first use and separately in every process.

    Args:
        address: Path of a SQLite file, created with its folder for the owner only; or an SQLAlchemy
            URL, ``postgresql+psycopg://…`` or ``sqlite:///…``.
        process: Id of this process in the database.

    Attributes:
        file: Path of the SQLite file, None for a server.
    """

    def __init__(self, address: str, process: str = PROCESS_ID) -> None:
        self.address, self.process = address, process
        own = "://" not in address or address.startswith(_SQLITE_PREFIX)
        self.file = (
            Path(address.removeprefix(_SQLITE_PREFIX)).expanduser().absolute() if own else None
        )
        self._reset_connections()
        os.register_at_fork(after_in_child=self._reset_connections)

    def _reset_connections(self) -> None:
        """Drop the parent's connections after a fork.

        They are not closed: the parent still uses them.
        """
        self._engine: sa.Engine | None = None
        self._lock, self._turn = threading.Lock(), threading.Lock()

    @contextmanager
    def write_transaction(self) -> Iterator[sa.Connection]:
        """Open a write transaction, committed at the end of the block and rolled back on an error.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: The database cannot be reached or refuses.
            OSError: The file cannot be created.
        """
        # SQLite allows one writer at a time. A lock hands over at once; SQLite's own wait polls.
        with self._turn if self.file else contextlib.nullcontext():
            # IMMEDIATE takes the write lock at once; upgrading a read lock can fail as busy.
            engine = self._get_engine().execution_options(begins="BEGIN IMMEDIATE")
            with engine.begin() as connection:
                yield connection

    @contextmanager
    def read_transaction(self) -> Iterator[sa.Connection]:
        """Open a read transaction, which never waits for a writer. Raises as ``writing``."""
        with self._get_engine().begin() as connection:
            yield connection

    def close_connections(self) -> None:
        """Close all connections; the next use opens the database again."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()

    def reclaim_disk_space(self) -> None:
        """Return the space of deleted rows in a file to the disk. A server does so itself."""
        if self.file:
            with self._turn, contextlib.closing(self._get_engine().raw_connection()) as raw:
                for pragma in ("incremental_vacuum", "wal_checkpoint(TRUNCATE)"):
                    asking = raw.cursor()
                    asking.execute(f"PRAGMA {pragma}")
                    asking.fetchall()

    def insert(self, table: sa.Table) -> Insert:
        """Return an INSERT statement that supports ON CONFLICT, for the database's dialect."""
        if self.file:
            from sqlalchemy.dialects import sqlite

            # Both dialects have the same ON CONFLICT methods, so one type stands for both.
            return sqlite.insert(table).execution_options(**_ROW_COUNT_OPTION)  # pyright: ignore[reportReturnType]
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table).execution_options(**_ROW_COUNT_OPTION)

    def now(self) -> sa.ColumnElement[float]:
        """Return the SQL expression of the database's clock in Unix seconds, equal for all."""
        if self.file:
            return (sa.func.julianday("now") - _EPOCH_DAY) * 86400.0
        return sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.Float)

    def _get_engine(self) -> sa.Engine:
        with self._lock:
            if self._engine is None:
                self._engine = (
                    self._connect_file(self.file) if self.file else self._connect_server()
                )
            return self._engine

    def _connect_server(self) -> sa.Engine:
        limit = {"connect_timeout": _CONNECT_TIMEOUT_S} if "postgresql" in self.address else {}
        engine = sa.create_engine(self.address, pool_pre_ping=True, connect_args=limit)
        with engine.begin() as connection:
            # CREATE TABLE IF NOT EXISTS is not safe against a concurrent one in PostgreSQL.
            if engine.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATE_LOCK_ID)))
            tables.METADATA.create_all(connection)
        return engine

    def _connect_file(self, path: Path) -> sa.Engine:
        """Return the engine of a SQLite file.

        A damaged file or one of another schema version is replaced.
        """
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Created here because SQLite would apply the umask instead of 0600.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        if not _is_current_schema(path):
            for end in ("", "-wal", "-shm"):
                path.with_name(path.name + end).unlink(missing_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        engine = sa.create_engine(
            "sqlite://", creator=lambda: _open_sqlite(path), poolclass=sa.pool.QueuePool
        )
        sa.event.listen(engine, "begin", _begin_transaction)  # pyright: ignore[reportAttributeAccessIssue]
        with engine.execution_options(begins="BEGIN IMMEDIATE").begin() as connection:
            tables.METADATA.create_all(connection)
            connection.exec_driver_sql(f"PRAGMA user_version = {tables.SCHEMA_VERSION}")
        return engine


def _open_sqlite(path: Path) -> sqlite3.Connection:
    """Return a SQLite connection without implicit transactions; SQLAlchemy's event begins them."""
    uri = f"{path.as_uri()}?mode=rw"
    db = sqlite3.connect(
        uri, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
    )
    try:
        # Takes effect in a new file only, and must come before any other statement.
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        for pragma in _PRAGMAS:
            db.execute(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        db.close()
        raise
    return db


def _begin_transaction(connection: sa.Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("begins", "BEGIN"))


def _is_current_schema(path: Path) -> bool:
    """Return whether a file is an intact database of this schema version, or empty.

    Raises:
        sqlite3.OperationalError: The file cannot be read now, which does not mean that it is
            damaged.
    """
    try:
        with contextlib.closing(_open_sqlite(path)) as db:
            [form] = db.execute("PRAGMA user_version").fetchone()
            [held] = db.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return False
    return form == tables.SCHEMA_VERSION or not held


def open_database(address: str) -> Database | None:
    """Return the database of an address, None for "": then nothing is stored beyond the process."""
    return Database(address) if address else None


DATABASE = open_database(SETTINGS.journal)


def database_errors() -> tuple[type[Exception], ...]:
    """Return the exception types that using a database may raise."""
    return (sa.exc.SQLAlchemyError, sqlite3.Error, OSError)  # pyright: ignore[reportAttributeAccessIssue]
