"""The simulation's line serves in the order of the engine's own."""

from __future__ import annotations

import random
import threading

import pytest

from benchmarks.scale.fair import FairLine, Stand
from engine.run import scheduler, turn_taking
from engine.run.scheduler import RunQueue
from engine.run.visitor import Visitor
from tests.helpers.visitors import asking_as

# As permits names them: one that waits, one that is let in.
WAITS, LOADS = turn_taking.WAITING, turn_taking.LOADING


class BothLines:
    """RunLine with places that no thread holds, beside the simulation's line."""

    def __init__(self):
        self.real, self.simulated = RunQueue(), FairLine()
        self.names = {}
        self.inside = []

    def come(self, number, visitor):
        with asking_as(visitor):
            place = scheduler.Ticket(
                self.real, None, 1.0, threading.Event(), scheduler.ignore_event
            )
        with self.real._changed:
            self.real._enqueue(place)
        self.names[id(place)] = number
        self.simulated.add(Stand(visitor.address, visitor.session, number))

    def serve(self):
        """Let the next of both in; return who that is in each."""
        waiting = [place for place in self.real._tickets if place.state == WAITS]
        if not waiting:
            assert self.simulated.let_in() is None
            return None
        first = next(place for place in self.real._service_order() if place.state == WAITS)
        assert self.real.try_advance(first, LOADS)
        stand = self.simulated.let_in()
        assert stand is not None
        self.inside.append((first, stand))
        return self.names[id(first)], stand.what

    def end(self):
        """End what was let in first."""
        place, stand = self.inside.pop(0)
        with self.real._changed:
            self.real._tickets.remove(place)
            self.real._inside.remove(place)
        self.simulated.leave(stand)


@pytest.mark.by_day(3)
@pytest.mark.parametrize("seed", range(40))
def test_both_lines_serve_in_one_order(seed):
    chance, lines = random.Random(seed), BothLines()
    addresses = chance.randint(1, 5)
    served = 0
    for number in range(120):
        address = "" if chance.random() < 0.2 else f"192.0.2.{chance.randrange(addresses)}"
        lines.come(number, Visitor(address, f"page {chance.randrange(4)}"))
        while chance.random() < 0.45 and lines.simulated.waiting:
            served += _served_alike(lines)
    while lines.simulated.waiting:
        served += _served_alike(lines)
    assert served == 120
    assert len(lines.simulated) == len(lines.inside)


def _served_alike(lines):
    # The engine lets in one more than may compute.
    while len(lines.inside) > 1:
        lines.end()
    real, simulated = lines.serve()
    assert real == simulated
    return 1


def test_a_noisy_visitor_waits_behind_quiet_ones():
    line = FairLine()
    for number in range(5):
        line.add(Stand("noisy", 0, f"noisy {number}"))
    for number in range(3):
        line.add(Stand(f"quiet {number}", 0, f"quiet {number}"))
    order = []
    while (place := line.let_in()) is not None:
        order.append(place.what)
        line.leave(place)
    assert order[:4] == ["noisy 0", "quiet 0", "quiet 1", "quiet 2"]


def test_pages_of_one_address_take_turns():
    line = FairLine()
    for page in ("a", "a", "a", "b", "b"):
        line.add(Stand("school", page, page))
    order = []
    while (place := line.let_in()) is not None:
        order.append(place.what)
        line.leave(place)
    assert order == ["a", "b", "a", "b", "a"]
