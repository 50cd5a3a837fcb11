"""Classrooms in a database, which every process that shares it can serve."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from playground.rooms.state import RoomHolder, RoomNotFoundError, RoomState, RoomStore
from playground.storage import tables
from playground.storage.database import Database
from playground.storage.journal import Journal
from playground.storage.presence import ProcessPresence

_ROOM_COLUMNS = ("secret", "lesson", "language", "address", "used", "card", "locked")


class DatabaseRoomStore(RoomStore):
    """Store of rooms that all processes of a database share.

    A change locks the room's row, reads any newer state and writes separate rows, so bets through
    two processes both count.

    Args:
        database: The database.
        presence: The heartbeat of this process, None for a new one.
    """

    shared = True

    def __init__(self, database: Database, presence: ProcessPresence | None = None) -> None:
        super().__init__()
        self.database, self.presence = database, presence or ProcessPresence(database)
        self._written_listeners: set[tuple[str, str]] = set()

    def add(self, state: RoomState) -> bool:
        """Store a new room; return whether its code was free."""
        state.version = 1
        new = self.database.insert(tables.ROOMS).values(
            code=state.code, version=state.version, **_to_row(state)
        )
        with self.database.write_transaction() as db:
            return db.execute(new.on_conflict_do_nothing()).rowcount == 1

    def find(self, code: str, version: int = -1) -> RoomState | None:
        """Return a room if it is newer than ``version``, else None.

        Raises:
            Gone: The room does not exist.
        """
        with self.database.read_transaction() as db:
            known = db.execute(_select_version(code)).scalar()
            if known is None:
                raise RoomNotFoundError
            return self._read_room(db, code) if known > version else None

    @contextmanager
    def edit_room(self, held: RoomHolder) -> Iterator[None]:
        """Lock a room for a change; see ``RoomStore.edit_room``."""
        code, version = held.state.code, 0
        try:
            with self._edit_transaction(held, code) as version:
                yield
        except BaseException:
            # Memory may be ahead of the rolled-back row; -1 makes the next use read the row.
            if held.state.version > version:
                held.state.version = -1
            raise

    @contextmanager
    def _edit_transaction(self, held: RoomHolder, code: str) -> Iterator[int]:
        with self.database.write_transaction() as db:
            version = db.execute(_select_version(code).with_for_update()).scalar()
            if version is None:
                raise RoomNotFoundError
            if version != held.state.version:
                held.catch_up(self._read_room(db, code))
            before = _copy_state(held.state)
            yield int(version)
            now = held.state
            now.version = version + 1
            _write_changes(db, before, now)

    def remove(self, code: str) -> None:
        """Remove a room; an unknown code is ignored."""
        with self.database.write_transaction() as db:
            db.execute(sa.delete(tables.ROOMS).where(tables.ROOMS.c.code == code))

    def expire(self, code: str, before: float) -> bool:
        """Remove a room not used since ``before``; return whether it is gone."""
        rooms = tables.ROOMS.c
        with self.database.write_transaction() as db:
            db.execute(sa.delete(tables.ROOMS).where(rooms.code == code, rooms.used < before))
            return db.execute(_select_version(code)).scalar() is None

    def states(self) -> Iterable[RoomState]:
        """Return the states of all rooms."""
        with self.database.read_transaction() as db:
            codes = db.execute(sa.select(tables.ROOMS.c.code)).scalars().all()
            return [self._read_room(db, code) for code in codes]

    def sync_listeners(self, listeners: Mapping[str, Set[str]]) -> dict[str, int]:
        """Publish who listens through this process, and return the versions of these rooms."""
        self.presence.start_heartbeat()
        current = {(code, person) for code, people in listeners.items() for person in people}
        table, rooms = tables.LISTENERS.c, tables.ROOMS.c
        gone = (
            sa.select(table.code)
            .where(table.process.not_in(self.presence.select_alive_ids()))
            .distinct()
        )
        with self.database.read_transaction() as db:
            left = {*db.execute(gone).scalars()}
        if current != self._written_listeners or left:
            with self.database.write_transaction() as db:
                self._write_listeners(db, current, left)
            self._written_listeners = current
        versions = sa.select(rooms.code, rooms.version).where(rooms.code.in_(list(listeners)))
        with self.database.read_transaction() as db:
            return {room.code: room.version for room in db.execute(versions)}

    def _write_listeners(
        self, db: sa.Connection, current: set[tuple[str, str]], left: set[str]
    ) -> None:
        """Update the listeners of this and of dead processes, and increase the rooms' versions."""
        table, rooms, own = tables.LISTENERS, tables.ROOMS.c, self.database.process
        changed = left | {code for code, _ in current ^ self._written_listeners}
        # Rows are locked in one order, so that two processes cannot deadlock.
        here = sa.select(rooms.code).where(rooms.code.in_(changed)).order_by(rooms.code)
        there = {*db.execute(here.with_for_update()).scalars()}
        db.execute(sa.delete(table).where(table.c.process.not_in(self.presence.select_alive_ids())))
        for code, person in self._written_listeners - current:
            its = (table.c.code == code, table.c.person == person, table.c.process == own)
            db.execute(sa.delete(table).where(*its))
        new = [{"code": c, "person": p, "process": own} for c, p in current if c in there]
        if new:
            db.execute(self.database.insert(table).on_conflict_do_nothing(), new)
        more = sa.update(tables.ROOMS).where(rooms.code.in_(there))
        db.execute(more.values(version=rooms.version + 1))

    def _read_room(self, db: sa.Connection, code: str) -> RoomState:
        """Return a room's current state.

        Raises:
            Gone: The room does not exist.
        """
        rooms, people, votes = tables.ROOMS, tables.PEOPLE.c, tables.VOTES.c
        listeners = tables.LISTENERS.c
        room = db.execute(sa.select(rooms).where(rooms.c.code == code)).first()
        if room is None:
            raise RoomNotFoundError
        came = sa.select(people.person).where(people.code == code).order_by(people.came)
        bets = sa.select(votes.card, votes.person, votes.answer).where(votes.code == code)
        elsewhere = sa.select(listeners.person).where(
            listeners.code == code,
            listeners.process != self.database.process,
            listeners.process.in_(self.presence.select_alive_ids()),
        )
        found: dict[int, dict[str, Any]] = {}
        for card, person, answer in db.execute(bets.order_by(votes.came)):
            found.setdefault(card, {})[person] = json.loads(answer)
        return RoomState(
            code=code,
            **{name: getattr(room, name) for name in _ROOM_COLUMNS},
            people=dict.fromkeys(db.execute(came).scalars()),
            votes=found,
            revealed=set(json.loads(room.revealed)),
            version=room.version,
            elsewhere=frozenset(db.execute(elsewhere).scalars()),
        )


def open_room_store(journal: Journal) -> RoomStore:
    """Return the store of rooms in the journal's database, or in memory if the journal has none."""
    runs = journal.run_store
    # One heartbeat for both: at shutdown it must stop for rooms and runs together.
    return RoomStore() if runs is None else DatabaseRoomStore(runs.database, runs.presence)


def _select_version(code: str) -> sa.Select[Any]:
    return sa.select(tables.ROOMS.c.version).where(tables.ROOMS.c.code == code)


def _to_row(state: RoomState) -> dict[str, Any]:
    own = {name: getattr(state, name) for name in _ROOM_COLUMNS}
    return own | {"revealed": json.dumps(sorted(state.revealed))}


def _copy_state(state: RoomState) -> RoomState:
    votes = {card: dict(answers) for card, answers in state.votes.items()}
    return replace(state, people=dict(state.people), votes=votes, revealed=set(state.revealed))


def _write_changes(db: sa.Connection, before: RoomState, now: RoomState) -> None:
    """Write the differences between two states of a room."""
    code, came = now.code, now.version
    rooms, people, votes = tables.ROOMS, tables.PEOPLE, tables.VOTES
    values = {"version": now.version, **_to_row(now)}
    db.execute(sa.update(rooms).where(rooms.c.code == code).values(**values))
    for person in before.people.keys() - now.people.keys():
        db.execute(sa.delete(people).where(people.c.code == code, people.c.person == person))
    new = [
        {"code": code, "person": one, "came": came}
        for one in now.people
        if one not in before.people
    ]
    if new:
        db.execute(sa.insert(people), new)
    for card, answers in now.votes.items():
        known = before.votes.get(card, {})
        for person in (one for one, answer in answers.items() if known.get(one, ...) != answer):
            its = (votes.c.code == code, votes.c.card == card, votes.c.person == person)
            answer = json.dumps(answers[person], allow_nan=False)
            if person in known:
                db.execute(sa.update(votes).where(*its).values(answer=answer))
            else:
                row = {"code": code, "card": card, "person": person, "answer": answer, "came": came}
                db.execute(sa.insert(votes).values(**row))
