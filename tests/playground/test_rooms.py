"""Rooms: who may enter and bet, what counts, who teaches, and when they end."""

from __future__ import annotations

import json
import math
import threading

import pytest

from engine.lessons.lesson import LessonError
from playground.rooms import qr
from playground.rooms.registry import CODE_ALPHABET, NO_ROOM
from playground.rooms.room import TEACHER, RoomError
from tests.helpers.rooms import KINDS, Hand, rooms_of, write_lesson
from tests.helpers.sentences import clean

HERE = "192.0.2.1"
TOKEN, NUMBER, ORDER, TRUTH, CHOICE, TEXT, NOTHING = range(1, len(KINDS) + 1)


@pytest.fixture(scope="module")
def lesson(tmp_path_factory):
    return write_lesson(tmp_path_factory.mktemp("lessons"))


@pytest.fixture
def clock():
    return Hand()


@pytest.fixture
def make(lesson, clock):
    """Return what makes rooms with other limits."""
    return lambda **limits: rooms_of(lesson, clock, **limits)


@pytest.fixture
def rooms(make):
    return make(room_joins_per_minute=10_000)


@pytest.fixture
def opened(rooms):
    """Return an open room's code and its teacher's secret."""
    room, secret = rooms.open("kinds", "en", TOKEN, HERE)
    return room.state.code, secret


def entered(rooms, code, count=1, address=HERE):
    return [rooms.enter(code, "", address)[1] for _ in range(count)]


def told(room):
    return room.class_scene()[1]


def test_a_code_is_short_and_hard_to_misread_and_the_secret_is_not_kept(rooms):
    codes = set()
    for number in range(10):
        room, secret = rooms.open("kinds", "en", 1, f"192.0.2.{number}")
        codes.add(room.state.code)
        assert len(secret) > 40
        assert secret not in repr(room.state)
        assert room.is_taught_by(secret)
        assert not room.is_taught_by("")
    assert len(codes) == 10
    assert all(len(code) == 6 and set(code) <= set(CODE_ALPHABET) for code in codes)
    assert not set(CODE_ALPHABET) & set("01258ABEILOSUZ")


def test_one_vote_counts_the_last_before_the_reveal(rooms, opened):
    code, secret = opened
    one, other = entered(rooms, code, 2)
    room = rooms.find_room(code, HERE)
    for number in range(10_000):
        rooms.vote(code, one, HERE, TOKEN, number % 4)
    rooms.vote(code, other, HERE, TOKEN, 0)
    assert room.figures()[1]["tally"]["counts"] == [1, 0, 0, 1]
    rooms.teach(code, secret, HERE, "reveal", TOKEN)
    with pytest.raises(RoomError, match="has been shown"):
        rooms.vote(code, one, HERE, TOKEN, 1)
    rooms.teach(code, secret, HERE, "show", NUMBER)
    with pytest.raises(RoomError, match="at card 2, not 1"):
        rooms.vote(code, one, HERE, TOKEN, 1)
    rooms.teach(code, secret, HERE, "show", TOKEN)
    with pytest.raises(RoomError, match="has been shown"):
        rooms.vote(code, one, HERE, TOKEN, 1)
    assert told(room)["tally"]["counts"] == [1, 0, 0, 1], "the class sees what was counted"


@pytest.mark.parametrize(
    ("card", "answers", "counted"),
    [
        (TOKEN, [0, 1, 1, 3], {"counts": [1, 2, 0, 1]}),
        (TRUTH, [0, 0, 1], {"counts": [2, 1], "right": 2}),
        (CHOICE, [1, 0, 1], {"counts": [1, 2], "right": 2}),
        (
            ORDER,
            [[1, 2, 0], [1, 2, 0], [0, 1, 2]],
            {"orders": [[[1, 2, 0], 2], [[0, 1, 2], 1]], "right": 2},
        ),
        (TEXT, ["because", "<b>why</b>"], {"votes": 2, "right": None}),
    ],
)
def test_answers_of_every_kind_are_counted(rooms, opened, card, answers, counted):
    code, secret = opened
    rooms.teach(code, secret, HERE, "show", card)
    for participant, answer in zip(entered(rooms, code, len(answers)), answers, strict=True):
        rooms.vote(code, participant, HERE, card, answer)
    figures = rooms.find_room(code, HERE).figures()[1]
    assert figures["tally"] == figures["tally"] | counted
    assert figures["tally"]["votes"] == len(answers)
    assert figures["words"] == [one for one in answers if isinstance(one, str)]
    rooms.teach(code, secret, HERE, "reveal", card)
    assert "because" not in json.dumps(told(rooms.find_room(code, HERE))), (
        "words are for the teacher alone"
    )


def test_numbers_fall_into_bins(rooms, opened):
    code, secret = opened
    rooms.teach(code, secret, HERE, "show", NUMBER)
    answers = [0, 9.5, 10, 55, 100, 100]
    for participant, answer in zip(entered(rooms, code, len(answers)), answers, strict=True):
        rooms.vote(code, participant, HERE, NUMBER, answer)
    tally = rooms.find_room(code, HERE).figures()[1]["tally"]
    assert tally["median"] == 32.5
    assert [votes for *_, votes in tally["bins"]] == [2, 1, 0, 0, 0, 1, 0, 0, 0, 2]
    assert tally["bins"][0][:2] == [0, 10]
    assert tally["bins"][-1][:2] == [90, 100]


def test_the_crowds_perplexity_is_that_of_what_it_bet_on(rooms, opened):
    code, _ = opened
    answers = [0, 0, 2, 3, 3]
    for participant, answer in zip(entered(rooms, code, len(answers)), answers, strict=True):
        rooms.vote(code, participant, HERE, TOKEN, answer)
    room = rooms.find_room(code, HERE)
    probabilities = room.card.key.probabilities
    mean = sum(math.log(probabilities[answer]) for answer in answers) / len(answers)
    assert room.figures()[1]["tally"]["perplexity"] == pytest.approx(math.exp(-mean))


@pytest.mark.parametrize(
    ("card", "answer"),
    [
        (TOKEN, 4),
        (TOKEN, -1),
        (TOKEN, True),
        (TOKEN, 1.0),
        (TOKEN, "0"),
        (TOKEN, None),
        (NUMBER, 101),
        (NUMBER, math.nan),
        (NUMBER, math.inf),
        (NUMBER, 10**400),
        (NUMBER, "5"),
        (ORDER, [0, 1]),
        (ORDER, [0, 0, 1]),
        (ORDER, [0, 1, 2, 3]),
        (ORDER, {"0": 1}),
        (TRUTH, 2),
        (TRUTH, False),
        (TEXT, ""),
        (TEXT, "x" * 401),
        (TEXT, 5),
        (TEXT, "half \ud800"),
        (NOTHING, 0),
    ],
)
def test_an_answer_that_a_card_does_not_allow_is_refused(rooms, opened, card, answer):
    code, secret = opened
    rooms.teach(code, secret, HERE, "show", card)
    (participant,) = entered(rooms, code)
    with pytest.raises((RoomError, LessonError)) as refused:
        rooms.vote(code, participant, HERE, card, answer)
    clean(str(refused.value))
    assert not rooms.find_room(code, HERE).state.votes.get(card)


def test_a_full_room_gives_the_places_of_those_who_left_without_a_bet(make):
    rooms = make(max_room_people=3, room_joins_per_minute=10_000)
    room, _ = rooms.open("kinds", "en", TOKEN, HERE)
    code = room.state.code
    voter, listener, idle = entered(rooms, code, 3)
    rooms.vote(code, voter, HERE, TOKEN, 1)
    with room.count_listener(listener):
        (newcomer,) = entered(rooms, code)
        assert not room.has_participant(idle)
        with room.count_listener(newcomer), pytest.raises(RoomError, match="holds 3 people"):
            rooms.enter(code, "", HERE)
    assert rooms.enter(code, voter, HERE)[1] == voter, "who is in stays in"
    assert len(room.state.people) == 3


def test_a_locked_room_lets_nobody_new_in(rooms, opened):
    code, secret = opened
    (inside,) = entered(rooms, code)
    rooms.teach(code, secret, HERE, "lock")
    with pytest.raises(RoomError, match="locked"):
        rooms.enter(code, "made up", HERE)
    assert rooms.enter(code, inside, HERE)[1] == inside
    rooms.teach(code, secret, HERE, "unlock")
    assert len(entered(rooms, code, 2)) == 2


def test_a_room_ends_when_nobody_has_used_it_for_so_long(make, clock):
    rooms = make(room_idle_s=100)
    room, secret = rooms.open("kinds", "en", TOKEN, HERE)
    code = room.state.code
    (one,) = entered(rooms, code)
    for act in (
        lambda: rooms.vote(code, one, HERE, TOKEN, 1),
        lambda: rooms.teach(code, secret, HERE, "show", NUMBER),
        lambda: entered(rooms, code),
        lambda: rooms.enter(code, one, HERE),
    ):
        clock.now += 99
        act()
    assert not room.ended
    clock.now += 2
    with pytest.raises(RoomError) as ended:
        rooms.find_room(code, HERE, one)
    assert room.ended
    assert list(rooms.store.states()) == []
    with pytest.raises(RoomError) as never:
        rooms.find_room("NNNNNN", HERE)
    assert (
        (str(ended.value), ended.value.status)
        == (str(never.value), never.value.status)
        == (NO_ROOM, 404)
    )


def test_so_many_rooms_and_no_more(make, clock):
    rooms = make(max_rooms=3, max_rooms_per_address=2)
    first, _ = rooms.open("kinds", "en", 1, HERE)
    clock.now += 1
    second, _ = rooms.open("kinds", "en", 1, HERE)
    entered(rooms, second.state.code)
    third, _ = rooms.open("kinds", "en", 1, HERE)
    assert first.ended, "the oldest that nobody has entered gives way"
    entered(rooms, third.state.code)
    with pytest.raises(RoomError, match="close one of them"):
        rooms.open("kinds", "en", 1, HERE)
    fourth, _ = rooms.open("kinds", "en", 1, "192.0.2.2")
    with fourth.count_listener(TEACHER), pytest.raises(RoomError, match="3 rooms are open already"):
        rooms.open("kinds", "en", 1, "192.0.2.3")
    assert not fourth.ended
    rooms.close(second)
    rooms.open("kinds", "en", 1, "192.0.2.3")


def test_empty_rooms_lock_no_teacher_out(make, clock):
    """The address with the most rooms loses the oldest one that nobody entered or has open."""
    rooms = make(max_rooms=6, max_rooms_per_address=4)
    quiet, _ = rooms.open("kinds", "en", 1, "192.0.2.9")
    many = []
    for number in range(4):
        clock.now += 1
        many.append(rooms.open("kinds", "en", 1, HERE)[0])
        if number == 1:
            entered(rooms, many[1].state.code)
    rooms.open("kinds", "en", 1, "192.0.2.8")
    with many[0].count_listener(TEACHER):
        rooms.open("kinds", "en", 1, "192.0.2.3")
    assert [room.ended for room in (quiet, *many)] == [False, False, False, True, False]


def test_a_teacher_does_not_lose_the_room_she_has_open_to_her_own_next_one(make):
    rooms = make(max_rooms_per_address=1)
    room, _ = rooms.open("kinds", "en", 1, HERE)
    with room.count_listener(TEACHER), pytest.raises(RoomError, match="close one of them"):
        rooms.open("kinds", "en", 1, HERE)
    assert not room.ended


def test_wrong_codes_are_rationed_for_those_who_are_not_in(make, clock):
    rooms = make(room_wrong_codes_per_minute=5)
    room, secret = rooms.open("kinds", "en", TOKEN, HERE)
    code = room.state.code
    (inside,) = entered(rooms, code)
    for _ in range(5):
        with pytest.raises(RoomError, match="no such room"):
            rooms.find_room("NNNNNN", HERE)
    for wanted in ("NNNNNN", code):
        with pytest.raises(RoomError, match="Too many wrong codes"):
            rooms.enter(wanted, "", HERE)
    rooms.vote(code, inside, HERE, TOKEN, 1)
    rooms.teach(code, secret, HERE, "lock")
    rooms.teach(code, secret, HERE, "unlock")
    entered(rooms, code, address="192.0.2.2")
    clock.now += 60
    entered(rooms, code)


def test_one_address_does_not_fill_a_room_at_once(make, clock):
    rooms = make(room_joins_per_minute=60, max_room_people=200)
    room, _ = rooms.open("kinds", "en", TOKEN, HERE)
    code = room.state.code
    entered(rooms, code, 60)
    with pytest.raises(RoomError, match="at once"):
        rooms.enter(code, "", HERE)
    assert len(room.state.people) == 60
    entered(rooms, code, address="192.0.2.2")
    clock.now += 10
    entered(rooms, code, 10)
    with pytest.raises(RoomError, match="at once"):
        rooms.enter(code, "", HERE)


def test_only_who_opened_a_room_teaches(rooms, opened):
    code, _ = opened
    (participant,) = entered(rooms, code)
    for secret in ("", "x", participant, "\ud800"):
        with pytest.raises(RoomError, match="Only who opened"):
            rooms.teach(code, secret, HERE, "reveal", TOKEN)
    assert not rooms.find_room(code, HERE).state.revealed


def test_saying_twice_which_card_comes_next_skips_none(rooms, opened):
    code, secret = opened
    for _ in range(2):
        rooms.teach(code, secret, HERE, "show", NUMBER)
    with pytest.raises(RoomError, match="at card 2"):
        rooms.teach(code, secret, HERE, "reveal", TOKEN)
    assert rooms.find_room(code, HERE).state.card == NUMBER


def test_votes_from_many_threads_all_count(rooms, opened):
    code, _ = opened
    people = entered(rooms, code, 64)

    def bet(own):
        for participant in own:
            for answer in (0, 1, 2):
                rooms.vote(code, participant, HERE, TOKEN, answer)

    threads = [threading.Thread(target=bet, args=(people[n::8],)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert rooms.find_room(code, HERE).figures()[1]["tally"]["counts"] == [0, 0, 64, 0]


def test_a_qr_code_has_its_three_corners():
    rows = qr.qr_rows("http://192.0.2.1:7860/room/7K3XQM")
    size = len(rows)
    assert all(len(row) == size and set(row) <= set("01") for row in rows)
    finder = ["1111111", "1000001", "1011101", "1011101", "1011101", "1000001", "1111111"]
    for top, left in ((0, 0), (0, size - 7), (size - 7, 0)):
        assert [row[left : left + 7] for row in rows[top : top + 7]] == finder
    for text in ("", "x" * 301):
        with pytest.raises(ValueError, match="1 to 300"):
            qr.qr_rows(text)
