"""Defects of rooms: what would give an answer away, count what must not count, or let anybody in."""

from __future__ import annotations

from tests.planted.defect import Defect

_ROOM = "playground/rooms/room.py"
_ROOMS = "playground/rooms/registry.py"
_LEAKS = "test_nothing_that_is_sent_before_the_reveal_tells_the_answer"

ROOMS = (
    Defect(
        "answer-sent-early",
        "Every telephone of a class has the answer before it is revealed.",
        _ROOM,
        "            if self.state.card in self.state.revealed:\n                scene",
        "            if True:\n                scene",
        (f"tests/playground/test_room_news.py::{_LEAKS}",),
    ),
    Defect(
        "run-named-early",
        "What a run is called, which may be what is asked for, comes with the question.",
        _ROOM,
        '{"before": self.card.seen}',
        '{"before": self.card.before}',
        (f"tests/playground/test_room_news.py::{_LEAKS}",),
    ),
    Defect(
        "bets-after-the-reveal",
        "A participant who has seen the answer may still bet on it.",
        _ROOM,
        "            if not self.is_betting_open:\n",
        "            if self.ended:\n",
        ("tests/playground/test_rooms.py::test_one_vote_counts_the_last_before_the_reveal",),
    ),
    Defect(
        "codes-tried",
        "A stranger tries codes until one is a room's.",
        _ROOMS,
        "            self._wrong.take(address)\n",
        "",
        ("tests/playground/test_rooms.py::test_wrong_codes_are_rationed_for_those_who_are_not_in",),
    ),
    Defect(
        "anybody-teaches",
        "Anybody who knows a classroom's code can reveal, lock and close it.",
        _ROOMS,
        "        if not room.is_taught_by(secret):\n",
        "        if room.ended:\n",
        ("tests/playground/test_rooms.py::test_only_who_opened_a_room_teaches",),
    ),
)
