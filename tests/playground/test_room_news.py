"""News of rooms: who is told what and when, and that nobody is told an answer before it is revealed."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from engine.analysis import gallery
from playground.rooms import stream
from playground.rooms.room import TEACHER, RoomError
from playground.rooms.routes import routes
from playground.rooms.stream import (
    ENDED_EVENT,
    ClassScene,
    ParticipantView,
    TeacherView,
    stream_news,
)
from tests.helpers.patience import PATIENCE_S
from tests.helpers.rooms import HIDDEN, KINDS, Hand, rooms_of, write_lesson

HERE = "192.0.2.1"
CARDS = range(1, len(KINDS) + 1)


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return write_lesson(tmp_path_factory.mktemp("lessons"))


@pytest.fixture
def rooms(lesson):
    return rooms_of(lesson, Hand(), room_joins_per_minute=10_000)


@pytest.fixture
def opened(rooms):
    return rooms.open("kinds", "en", 1, HERE)


def participant(rooms, room):
    known = rooms.enter(room.state.code, "", HERE)[1]
    return known, ParticipantView(room, ClassScene(), known)


def events(sent):
    """Return the names and values of what was sent."""
    found = []
    for part in sent.decode().split("\n\n"):
        if part.startswith("event: "):
            name, data = part.removeprefix("event: ").split("\ndata: ")
            found.append((name, json.loads(data)))
    return found


def run(listened):
    """Return what a coroutine returns, run in a thread: a browser of other tests may hold this one's loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, listened).result()


async def following(news):
    return await asyncio.wait_for(anext(news), PATIENCE_S)


def test_the_class_learns_of_scenes_and_its_teacher_of_bets(rooms, opened):
    room, secret = opened
    code = room.state.code
    known, view = participant(rooms, room)
    teacher = TeacherView(room)
    [(name, scene)] = events(view.pending_events())
    assert (name, scene["card"], scene["cards"], scene["revealed"]) == (
        "scene",
        1,
        len(KINDS),
        False,
    )
    assert [name for name, _ in events(teacher.pending_events())] == ["scene", "figures"]
    rooms.vote(code, known, HERE, 1, 2)
    assert view.pending_events() == b""
    [(name, figures)] = events(teacher.pending_events())
    assert (name, figures["tally"]["votes"], figures["entered"]) == ("figures", 1, 1)
    rooms.teach(code, secret, HERE, "reveal", 1)
    (mine, own), (_, revealed) = events(view.pending_events())
    assert (mine, own) == ("mine", {"card": 1, "answer": 2})
    assert revealed["tally"]["counts"] == [0, 0, 1, 0]
    assert revealed["after"]["key"]["right"]
    assert (revealed["after"]["turn"], revealed["after"]["opens"]) == ([], None)


def test_a_reader_who_comes_late_or_again_gets_the_same(rooms, opened):
    room, _ = opened
    known, view = participant(rooms, room)
    first = view.pending_events()
    rooms.vote(room.state.code, known, HERE, 1, 3)
    again = events(ParticipantView(room, ClassScene(), known).pending_events())
    assert again == [("mine", {"card": 1, "answer": 3}), *events(first)]
    late = participant(rooms, room)[1]
    assert late.pending_events() == first


def test_a_scene_is_packed_once_for_all(rooms, opened, monkeypatch):
    room, secret = opened
    packed = []
    usual = stream.sse_event
    monkeypatch.setattr(stream, "sse_event", lambda *given: packed.append(given) or usual(*given))
    scene = ClassScene()
    views = [ParticipantView(room, scene, f"p{number}") for number in range(200)]
    assert len({view.pending_events() for view in views}) == 1
    rooms.teach(room.state.code, secret, HERE, "show", 2)
    assert len({view.pending_events() for view in views}) == 1
    assert [name for name, _ in packed] == ["scene", "scene"]


def test_a_stream_waits_for_news_and_ends_with_the_room(rooms, opened):
    room, secret = opened
    view = participant(rooms, room)[1]

    async def listened():
        news = stream_news(view, rooms.sweep)
        assert events(await following(news))[0][1]["card"] == 1
        waiting = asyncio.ensure_future(following(news))
        await asyncio.sleep(0)
        act = threading.Thread(target=rooms.teach, args=(room.state.code, secret, HERE, "show", 4))
        act.start()
        assert events(await waiting)[0][1]["card"] == 4
        act.join()
        rooms.close(room)
        return [part async for part in news]

    assert run(listened()) == [ENDED_EVENT]


def test_a_room_that_nobody_used_ends_for_those_who_still_listen(rooms, opened, monkeypatch):
    monkeypatch.setattr(stream, "_HEARTBEAT_S", 0.0)
    room, _ = opened
    view = participant(rooms, room)[1]

    async def listened():
        news = stream_news(view, rooms.sweep)
        await following(news)
        assert (await following(news)).startswith(b": ")
        rooms.clock.now += rooms.settings.room_idle_s + 1
        return [part async for part in news if not part.startswith(b":")]

    assert run(listened()) == [ENDED_EVENT]


def test_a_stream_has_its_time(rooms, opened, monkeypatch):
    monkeypatch.setattr(stream, "_MAX_STREAM_S", 0.0)
    view = participant(rooms, opened[0])[1]

    async def listened():
        return [part async for part in stream_news(view, rooms.sweep)]

    (only,) = run(listened())
    assert events(only)[0][0] == "scene"


def test_who_listens_counts_as_here_and_not_more_often_than_once(rooms, opened):
    room, _ = opened
    one, other = (participant(rooms, room)[0] for _ in range(2))

    def here():
        return room.figures()[1]["here"]

    with room.count_listener(TEACHER), room.count_listener(one), room.count_listener(one):
        assert here() == 1
        with room.count_listener(other):
            assert here() == 2
        assert here() == 1
        with (
            room.count_listener(one),
            room.count_listener(one),
            pytest.raises(RoomError, match="too many tabs"),
        ):
            room.check_listener(one)
    assert here() == 0
    room.check_listener(one)


def test_nothing_that_is_sent_before_the_reveal_tells_the_answer(rooms, opened):
    room, secret = opened
    code = room.state.code
    site = TestClient(Starlette(routes=routes(rooms)), base_url="http://127.0.0.1")
    trace = gallery.open_entry("greedy-1.json.gz")
    later = "".join(trace.pieces[step.emit[0]] for step in trace.steps[3:7])
    page = site.get(f"/room/{code}")
    known = site.cookies["participant"]
    view = ParticipantView(room, ClassScene(), known)
    answers = [0, 50, [0, 1, 2], 0, 0, "because", 0]
    for card, answer in zip(CARDS, answers, strict=True):
        rooms.teach(code, secret, HERE, "show", card)
        voted = site.post(f"/room/{code}/vote", json={"card": card, "answer": answer})
        assert voted.status_code == (409 if card == len(KINDS) else 200)
        again = ParticipantView(room, ClassScene(), known).pending_events()
        sent = view.pending_events() + again + voted.content + page.content
        whole = room.teacher_scene()[1]
        for word in (
            *HIDDEN,
            '"key"',
            '"right"',
            '"probabilities"',
            '"after"',
            '"tally"',
            "greedy",
            later,
        ):
            assert word.encode() not in sent, (card, word)
        for p in (whole["after"]["key"] or {}).get("probabilities", []):
            assert repr(p)[:6].encode() not in sent
        assert HIDDEN[0] in json.dumps(whole), "the teacher is told"
        rooms.teach(code, secret, HERE, "reveal", card)
        assert HIDDEN[0].encode() in view.pending_events()
