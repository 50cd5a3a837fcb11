"""Processes that share a database, a file or a server: what one does in a room, the others know of."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from engine.lessons.lesson import LessonError
from playground.rooms.registry import NO_ROOM
from playground.rooms.room import TEACHER, RoomError
from playground.rooms.store import DatabaseRoomStore
from playground.storage.database import Database
from playground.storage.presence import ProcessPresence
from playground.storage.run_store import ATTEMPT_STRIDE, RunMessage, RunStart, RunStore
from playground.storage.tables import LISTENERS, PROCESSES, ROOMS
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.postgres import missing, postgres
from tests.helpers.rooms import Hand, rooms_of, write_lesson
from tests.helpers.server import ROOT

HERE = "192.0.2.1"
BETS = """
import sys
from pathlib import Path
from playground.storage.database import Database
from playground.rooms.store import DatabaseRoomStore
from tests.helpers.rooms import Hand, rooms_of
address, lesson, code, *people = sys.argv[1:]
rooms = rooms_of(Path(lesson), Hand(), store=DatabaseRoomStore(Database(address)))
for answer in (0, 1, 2):
    for person in people:
        rooms.vote(code, person, "192.0.2.1", 1, answer)
"""


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return write_lesson(tmp_path_factory.mktemp("lessons"))


@pytest.fixture(scope="module")
def server():
    with tempfile.TemporaryDirectory() as folder, postgres(Path(folder)) as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def address(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "kept.db")
    if missing():
        pytest.skip(missing())
    found = request.getfixturevalue("server")
    with Database(found).write_transaction() as db:
        for table in (ROOMS, PROCESSES):
            db.execute(sa.delete(table))
    return found


@pytest.fixture
def clock():
    return Hand()


@pytest.fixture
def make(address, lesson, clock):
    """Return what makes the rooms of a process."""

    def made(process, **limits):
        limits = {"room_joins_per_minute": 10_000, **limits}
        return rooms_of(
            lesson, clock, store=DatabaseRoomStore(Database(address, process)), **limits
        )

    return made


def counts(room):
    return room.figures()[1]["tally"]["counts"]


def test_a_room_is_entered_bet_in_and_taught_through_every_process(make):
    one, other = make("one"), make("other")
    opened, secret = one.open("kinds", "en", 1, HERE)
    code = opened.state.code
    _, first = other.enter(code, "", HERE)
    _, second = one.enter(code, "", HERE)
    one.vote(code, first, HERE, 1, 0)
    other.vote(code, second, HERE, 1, 3)
    assert counts(one.find_room(code, HERE)) == counts(other.find_room(code, HERE)) == [1, 0, 0, 1]
    other.teach(code, secret, HERE, "reveal", 1)
    with pytest.raises(RoomError, match="has been shown"):
        one.vote(code, first, HERE, 1, 1)
    with pytest.raises(RoomError, match="Only who opened"):
        other.teach(code, first, HERE, "lock")
    other.teach(code, secret, HERE, "show", 2)
    with pytest.raises(LessonError):
        one.vote(code, first, HERE, 2, "none of these")
    later = make("later")
    room = later.find_room(code, HERE, first)
    assert (room.state.card, room.state.revealed, list(room.state.people)) == (
        2,
        {1},
        [first, second],
    )
    assert secret not in repr(room.state)
    later.teach(code, secret, HERE, "close")
    for rooms in (one, other):
        with pytest.raises(RoomError, match=NO_ROOM):
            rooms.vote(code, first, HERE, 2, 5)
    assert opened.ended


@pytest.mark.nightly
def test_bets_of_several_processes_all_count(make, address, lesson):
    rooms = make("one")
    opened, _ = rooms.open("kinds", "en", 1, HERE)
    code = opened.state.code
    people = [rooms.enter(code, "", HERE)[1] for _ in range(24)]
    command = [sys.executable, "-c", BETS, address, str(lesson), code]
    others = [subprocess.Popen([*command, *people[n::3]], cwd=ROOT) for n in (0, 1)]
    for answer in (0, 1, 2):
        for person in people[2::3]:
            rooms.vote(code, person, HERE, 1, answer)
    assert [other.wait(PATIENCE_S) for other in others] == [0, 0]
    assert counts(rooms.find_room(code, HERE)) == [0, 0, 24, 0]


def test_a_listener_learns_what_other_processes_do(make):
    one, other = make("one"), make("other")
    opened, secret = one.open("kinds", "en", 1, HERE)
    code = opened.state.code
    there, person = other.enter(code, "", HERE)
    scene = there.class_scene()[0]
    with opened.count_listener("", one.wake_watch):
        with there.count_listener(person, other.wake_watch):
            comes_true(lambda: opened.figures()[1]["here"] == 1)
            one.teach(code, secret, HERE, "show", 3)
            comes_true(lambda: there.class_scene()[1]["card"] == 3)
            assert there.class_scene()[0] > scene
            one.teach(code, secret, HERE, "show", 1)
            other.vote(code, person, HERE, 1, 2)
            comes_true(lambda: counts(opened) == [0, 0, 1, 0])
        comes_true(lambda: opened.figures()[1]["here"] == 0)
        with there.count_listener(person, other.wake_watch):
            comes_true(lambda: opened.figures()[1]["here"] == 1)
            one.close(opened)
            comes_true(lambda: there.ended)


def test_listeners_of_a_process_that_is_gone_are_here_no_more(make, address):
    one, other = make("one"), make("other")
    opened, _ = one.open("kinds", "en", 1, HERE)
    there, person = other.enter(opened.state.code, "", HERE)
    with Database(address).write_transaction() as db:
        db.execute(
            sa.insert(LISTENERS).values(code=there.state.code, person=person, process="dead")
        )
    with opened.count_listener("", one.wake_watch):
        comes_true(lambda: len(opened.state.people) == 1)
        assert opened.figures()[1]["here"] == 0
    with Database(address).read_transaction() as db:
        assert "dead" not in {*db.execute(sa.select(LISTENERS.c.process)).scalars()}


def test_a_room_whose_teacher_listens_in_another_process_gives_way_to_none(make):
    one, other = make("one", max_rooms=1), make("other", max_rooms=1)
    opened, _ = one.open("kinds", "en", 1, HERE)
    with opened.count_listener(TEACHER, one.wake_watch):
        comes_true(lambda: TEACHER in other.find_room(opened.state.code, HERE).state.elsewhere)
        with pytest.raises(RoomError, match="1 rooms are open already"):
            other.open("kinds", "en", 1, "192.0.2.2")
        assert opened.figures()[1]["here"] == 0, "a teacher is no member of the class"
    comes_true(lambda: TEACHER not in other.find_room(opened.state.code, HERE).state.elsewhere)
    other.open("kinds", "en", 1, "192.0.2.2")


def test_an_idle_room_of_a_process_that_is_gone_takes_no_place(make, clock):
    gone, next_one = (make(name, room_idle_s=100, max_rooms=1) for name in ("one", "other"))
    room, _ = gone.open("kinds", "en", 1, HERE)
    gone.enter(room.state.code, "", HERE)
    clock.now += 101
    next_one.open("kinds", "en", 1, "192.0.2.2")
    assert len(list(next_one.store.states())) == 1


def test_a_room_that_another_process_uses_continues(make, clock):
    one, other = make("one", room_idle_s=100), make("other", room_idle_s=100)
    opened, _ = one.open("kinds", "en", 1, HERE)
    code = opened.state.code
    clock.now += 99
    other.enter(code, "", HERE)
    clock.now += 99
    one.sweep()
    assert not opened.ended
    clock.now += 2
    for rooms in (one, other):
        with pytest.raises(RoomError, match=NO_ROOM):
            rooms.find_room(code, HERE)
    assert list(one.store.states()) == []


def test_so_many_rooms_of_all_processes(make):
    one, other = make("one", max_rooms=2), make("other", max_rooms=2)
    for rooms, teacher in ((one, HERE), (other, "192.0.2.2")):
        rooms.enter(rooms.open("kinds", "en", 1, teacher)[0].state.code, "", HERE)
    with pytest.raises(RoomError, match="2 rooms are open already"):
        one.open("kinds", "en", 1, "192.0.2.3")


def test_a_run_is_read_and_continued_by_another_process(address):
    one, other = (RunStore(Database(address, name), 3600.0, 10**6) for name in ("one", "other"))
    one.add(RunStart("r", "press", '{"prompt":"x"}'))
    one.add(RunMessage("r", 0, "{}", False))
    assert one.flush(PATIENCE_S)
    found = other.find("r")
    assert (found.texts, found.is_over, found.press) == (["{}"], False, "press")
    assert not other.claim("r", "one")
    one.presence.announce_exit()
    assert other.find("r").is_over
    assert other.claim("r", "one")
    assert not other.claim("r", "one")
    one.add(RunMessage("r", 1, "late", True))
    other.add(RunMessage("r", ATTEMPT_STRIDE + 1, '{"a":1}', True))
    assert one.flush(PATIENCE_S)
    assert other.flush(PATIENCE_S)
    assert one.find("r").texts == ["{}", '{"a":1}']


def test_a_heartbeat_under_way_does_not_bring_an_ended_process_back(address):
    database = Database(address, "ended")
    presence = ProcessPresence(database)
    presence.start_heartbeat()
    checked, go_on = threading.Event(), threading.Event()

    class Slow(threading.Event):
        def is_set(self):
            left = super().is_set()
            checked.set()
            go_on.wait(PATIENCE_S)
            return left

    presence._left = Slow()
    beat = threading.Thread(target=presence._send_heartbeat)
    leave = threading.Thread(target=presence.announce_exit)
    beat.start()
    assert checked.wait(PATIENCE_S)
    leave.start()
    leave.join(1)
    go_on.set()
    for thread in (beat, leave):
        thread.join(PATIENCE_S)
    with database.read_transaction() as db:
        assert "ended" not in db.scalars(presence.select_alive_ids()).all()
