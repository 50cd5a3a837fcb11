"""The database tables.

Their names contain the schema version, so tables of other versions are left alone.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

SCHEMA_VERSION = 2
_PREFIX = f"playground_{SCHEMA_VERSION}_"

METADATA = MetaData()

PROCESSES = Table(
    f"{_PREFIX}processes",
    METADATA,
    Column("id", String, primary_key=True),
    # Seconds of the database's clock, since the clocks of several machines differ.
    Column("seen", Float, nullable=False),
    sqlite_with_rowid=False,
)

RUNS = Table(
    f"{_PREFIX}runs",
    METADATA,
    Column("id", String, primary_key=True),
    # The process that decodes it; a process that takes over writes its own id.
    Column("process", String, nullable=False),
    # How often it was taken over.
    Column("making", Integer, nullable=False, default=0),
    Column("press", String, nullable=False),
    # The page's request as JSON; empty for a run that cannot be repeated.
    Column("asked", Text, nullable=False),
    Column("began", Float, nullable=False, index=True),
    Column("ended", Boolean, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

MESSAGES = Table(
    f"{_PREFIX}messages",
    METADATA,
    Column("run", String, primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("text", Text, nullable=False),
    sqlite_with_rowid=False,
)


def _room_code_column() -> Column[str]:
    """Return the column with the room's code; its rows are deleted with the room."""
    of = ForeignKey(f"{_PREFIX}rooms.code", ondelete="CASCADE")
    return Column("code", String, of, primary_key=True)


ROOMS = Table(
    f"{_PREFIX}rooms",
    METADATA,
    Column("code", String, primary_key=True),
    # Increases with every change.
    Column("version", Integer, nullable=False),
    Column("secret", String, nullable=False),
    Column("lesson", String, nullable=False),
    Column("language", String, nullable=False),
    Column("address", String, nullable=False),
    Column("used", Float, nullable=False),
    Column("card", Integer, nullable=False),
    Column("locked", Boolean, nullable=False),
    # Card numbers as JSON.
    Column("revealed", Text, nullable=False),
    sqlite_with_rowid=False,
)

PEOPLE = Table(
    f"{_PREFIX}people",
    METADATA,
    _room_code_column(),
    Column("person", String, primary_key=True),
    # Version of the room when they entered.
    Column("came", Integer, nullable=False),
    sqlite_with_rowid=False,
)

VOTES = Table(
    f"{_PREFIX}votes",
    METADATA,
    _room_code_column(),
    Column("card", Integer, primary_key=True, autoincrement=False),
    Column("person", String, primary_key=True),
    Column("answer", Text, nullable=False),
    Column("came", Integer, nullable=False),
    sqlite_with_rowid=False,
)

LISTENERS = Table(
    f"{_PREFIX}listeners",
    METADATA,
    _room_code_column(),
    Column("person", String, primary_key=True),
    # The process that streams the room to a participant's page.
    Column("process", String, primary_key=True),
    sqlite_with_rowid=False,
)
