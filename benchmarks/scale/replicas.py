"""Replicas in a simulation: each with the engine's line before it, and a batch of runs that share its passes."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import simpy

from benchmarks.scale.fair import FairLine, Stand
from benchmarks.scale.world import Hall, HallCounts, SimulatedRun

_EPSILON_S = 1e-9


class SimulatedReplica:
    """One replica: what it computes, and who is let in next.

    Args:
        env: keeps the time.
        hall: what serves.
        line: who waits; other replicas may take from it, too.
        count: is told of every second of work.
        ended: called with every run that has come to its end.
    """

    def __init__(
        self,
        env: simpy.Environment,
        hall: Hall,
        line: FairLine,
        count: HallCounts,
        ended: Callable[[SimulatedRun], None],
    ) -> None:
        self.env, self.hall, self.line, self.count, self.ended = env, hall, line, count, ended
        self.going: list[Stand] = []
        self.ready: Stand | None = None
        self.up = True
        self._speed = 1.0
        self._since = env.now
        self._version = 0

    @property
    def load(self) -> int:
        """Runs here, those that wait included."""
        return len(self.line) if self.up else math.inf  # type: ignore[return-value]

    def look(self) -> None:
        """Begin whatever may begin now."""
        began = False
        while self.up:
            place = self.ready or self._next()
            if place is None:
                break
            if not self._may_begin(place.what):
                # As the engine does: whose turn comes next is settled while another computes.
                self.ready = None if self.hall.shared_line else place
                break
            if self.hall.shared_line and self.ready is None:
                place = self.line.let_in()
                assert place is not None
            self.ready = None
            self._work()
            self._begin(place)
            began = True
        if began:
            self._plan()

    def lose(self) -> list[Stand]:
        """Stop at once; return the places of the runs that were let in, which have to begin anew."""
        self._work()
        self.up = False
        self._version += 1
        lost = list(self.going)
        for place in lost:
            run: SimulatedRun = place.what
            done = 1 - run.left_s / run.work_s if run.work_s else 0.0
            run.repeated += int(max(0.0, done) * run.kind.steps)
            run.losses += 1
        if self.ready is not None:
            lost.append(self.ready)
        self.going, self.ready = [], None
        for place in lost:
            self.line.leave(place)
        return lost

    def _next(self) -> Stand | None:
        return self.line.peek() if self.hall.shared_line else self.line.let_in()

    def _may_begin(self, run: SimulatedRun) -> bool:
        if not self.going:
            return True
        room = len(self.going) < self.hall.batch
        return room and run.kind.shares and self.going[0].what.kind.shares

    def _begin(self, place: Stand) -> None:
        run: SimulatedRun = place.what
        now = self.env.now
        crowd = self.hall.slower(self.line.waiting)
        run.left_s = run.work_s * crowd + self.hall.handover_s
        if run.began_at is None:
            run.began_at = now
        if run.first_at is None:
            run.first_at = now + (run.first_s * crowd + self.hall.handover_s) * self.hall.cost(
                1 + len(self.going)
            )
        self.going.append(place)

    def _work(self) -> None:
        """Let everybody have what was computed since the last look."""
        gone = self.env.now - self._since
        self._since = self.env.now
        if self.going:
            self.count.busy_s += gone
            for place in self.going:
                place.what.left_s -= gone * self._speed

    def _plan(self) -> None:
        """Come back when the first of those at work has ended."""
        self._version += 1
        if not self.going:
            return
        self._speed = 1 / self.hall.cost(len(self.going))
        first = min(place.what.left_s for place in self.going)
        event = self.env.timeout(max(0.0, first) / self._speed, self._version)
        assert event.callbacks is not None
        event.callbacks.append(self._came)

    def _came(self, event: simpy.Event) -> None:
        if event.value != self._version:
            return
        self._work()
        over = [place for place in self.going if place.what.left_s <= _EPSILON_S]
        self.going = [place for place in self.going if place.what.left_s > _EPSILON_S]
        for place in over:
            self.line.leave(place)
        self._plan()
        for place in over:
            self.ended(place.what)
        self.look()


class Router:
    """Sends runs to replicas, and away from those that are lost.

    Args:
        env: keeps the time.
        hall: what serves.
        chance: draws the two replicas of which the one with fewer runs is taken.
        count: counts.
        ended: called with every run that has come to its end.
    """

    def __init__(
        self,
        env: simpy.Environment,
        hall: Hall,
        chance: random.Random,
        count: HallCounts,
        ended: Callable[[SimulatedRun], None],
    ) -> None:
        self.env, self.hall, self.chance, self.count = env, hall, chance, count
        shared = FairLine() if hall.shared_line else None
        self.replicas = [
            SimulatedReplica(env, hall, FairLine() if shared is None else shared, count, ended)
            for _ in range(hall.replicas)
        ]
        self.waiting = 0
        self._parked: list[Stand] = []
        if hall.lost_every_s:
            env.process(self._lose())

    def send(self, run: SimulatedRun) -> bool:
        """Bring a run to a replica's line; return whether there was room."""
        replica = self._pick()
        place = Stand(run.visitor, 0, run)
        if replica is None:
            self._parked.append(place)
            return True
        if replica.line.waiting >= self.hall.max_waiting:
            return False
        self._bring(place, replica)
        return True

    def _bring(self, place: Stand, replica: SimulatedReplica) -> None:
        replica.line.add(place)
        self.count.most_waiting = max(self.count.most_waiting, replica.line.waiting)
        if self.hall.shared_line:
            replica = next((r for r in self.replicas if r.up and not r.going), replica)
        replica.look()

    def _pick(self) -> SimulatedReplica | None:
        if self.hall.shared_line:
            return next((replica for replica in self.replicas if replica.up), None)
        if len(self.replicas) > 1:
            first, second = self.chance.sample(self.replicas, 2)
            found = first if first.load <= second.load else second
        else:
            found = self.replicas[0]
        if found.up:
            return found
        return next((replica for replica in self.replicas if replica.up), None)

    def _lose(self):
        number = 0
        while self.env.now + self.hall.lost_every_s <= self.hall.lost_until_s:
            yield self.env.timeout(self.hall.lost_every_s)
            replica = self.replicas[number % len(self.replicas)]
            number += 1
            if not replica.up:
                continue
            self.count.losses += 1
            lost = replica.lose()
            if not self.hall.shared_line:
                while (place := replica.line.let_in()) is not None:
                    replica.line.leave(place)
                    lost.append(place)
            self._again(lost)
            self.env.process(self._restart(replica))

    def _restart(self, replica: SimulatedReplica):
        yield self.env.timeout(self.hall.restart_s)
        replica.up = True
        parked, self._parked = self._parked, []
        self._again(parked)
        replica.look()

    def _again(self, places: list[Stand]) -> None:
        """Send what was in a line already; nobody is refused twice."""
        for place in places:
            replica = self._pick()
            if replica is None:
                self._parked.append(place)
            else:
                self._bring(Stand(place.address, place.session, place.what), replica)
