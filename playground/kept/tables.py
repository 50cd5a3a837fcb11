"""The tables. Their names hold the number of their form: one of another form is neither read nor touched."""

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

FORM = 2
_PREFIX = f"playground_{FORM}_"

METADATA = MetaData()

PROCESSES = Table(
    f"{_PREFIX}processes",
    METADATA,
    Column("id", String, primary_key=True),
    # Seconds by the database's clock: several machines have several clocks.
    Column("seen", Float, nullable=False),
    sqlite_with_rowid=False,
)

RUNS = Table(
    f"{_PREFIX}runs",
    METADATA,
    Column("id", String, primary_key=True),
    # Who makes it; whoever goes on with it writes his own name here.
    Column("process", String, nullable=False),
    # How often somebody has gone on with it.
    Column("making", Integer, nullable=False, default=0),
    Column("press", String, nullable=False),
    # What the page sent, as JSON; empty for what is not made again.
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


def _code() -> Column[str]:
    """Return the column that says which room a row is of, and goes with it."""
    of = ForeignKey(f"{_PREFIX}rooms.code", ondelete="CASCADE")
    return Column("code", String, of, primary_key=True)


ROOMS = Table(
    f"{_PREFIX}rooms",
    METADATA,
    Column("code", String, primary_key=True),
    # Another one after every change.
    Column("version", Integer, nullable=False),
    Column("secret", String, nullable=False),
    Column("lesson", String, nullable=False),
    Column("language", String, nullable=False),
    Column("address", String, nullable=False),
    Column("used", Float, nullable=False),
    Column("card", Integer, nullable=False),
    Column("locked", Boolean, nullable=False),
    # Cards as JSON.
    Column("revealed", Text, nullable=False),
    sqlite_with_rowid=False,
)

PEOPLE = Table(
    f"{_PREFIX}people",
    METADATA,
    _code(),
    Column("person", String, primary_key=True),
    # The version of the room that began with their coming.
    Column("came", Integer, nullable=False),
    sqlite_with_rowid=False,
)

VOTES = Table(
    f"{_PREFIX}votes",
    METADATA,
    _code(),
    Column("card", Integer, primary_key=True, autoincrement=False),
    Column("person", String, primary_key=True),
    Column("answer", Text, nullable=False),
    Column("came", Integer, nullable=False),
    sqlite_with_rowid=False,
)

LISTENERS = Table(
    f"{_PREFIX}listeners",
    METADATA,
    _code(),
    Column("person", String, primary_key=True),
    # Through which of them a participant's page hears of the room.
    Column("process", String, primary_key=True),
    sqlite_with_rowid=False,
)
