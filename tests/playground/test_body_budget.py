"""Bodies of requests that are on their way."""

import asyncio

import pytest

from engine.errors import BusyError
from engine.one_shot_thread import run_in_thread
from playground.server.body_budget import BodyBudget, BodyTooLargeError


def read(incoming, most, taken):
    async def parts():
        for number in range(100):
            taken.append(number)
            yield b"a" * 10

    return run_in_thread(lambda: asyncio.run(incoming.read(parts(), most)))


def test_a_body_is_given_up_as_soon_as_it_is_too_large():
    incoming, taken = BodyBudget(10**6), []
    with pytest.raises(BodyTooLargeError):
        read(incoming, 25, taken)
    assert len(taken) == 3
    assert incoming.bytes == 0


def test_many_bodies_together_have_a_limit_of_their_own():
    incoming, taken = BodyBudget(55), []
    with pytest.raises(BusyError):
        read(incoming, 10**6, taken)
    assert len(taken) == 6
    assert incoming.bytes == 0


def test_a_body_comes_whole():
    assert read(BodyBudget(10**6), 1000, []) == b"a" * 1000
