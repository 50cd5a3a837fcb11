"""A lecture hall in discrete events: who comes, who waits, what computes, and what is lost and done again.

Everything is drawn from seeded generators, so a simulation is a function of its arguments.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from benchmarks.scale.replicas import Router
from benchmarks.scale.world import Crowd, Hall, HallCounts, Kind, SimulatedRun, chosen

_SOONEST = 0.99
"""The share of a web process that open pages may take in the simulation; beyond it nothing would ever begin."""


@dataclass(frozen=True)
class Simulated:
    """What a simulation came to.

    Attributes:
        count: what was counted.
        until_s: when the last thing happened.
        going: runs that had not ended by then.
    """

    count: HallCounts
    until_s: float
    going: int
    hall: Hall

    def waits(self, skip: float = 0.0) -> np.ndarray:
        """Return the seconds from press to turn of runs that were served, the first share of them left out."""
        done = self.count.done[int(skip * len(self.count.done)) :]
        return np.array([_number(run.began_at) - run.pressed_at for run in done])

    def firsts(self, skip: float = 0.0) -> np.ndarray:
        """Return the seconds from press to first step, likewise."""
        done = self.count.done[int(skip * len(self.count.done)) :]
        return np.array([_number(run.first_at) - run.pressed_at for run in done])

    def figures(self) -> dict[str, float]:
        """Return the figures of a table by name; units are in the names."""
        count, spent = self.count, max(self.until_s, 1e-9)
        waits, firsts = self.waits(), self.firsts()
        return {
            **{f"wait_p{q}_s": _percentile(waits, q) for q in (50, 95, 99)},
            **{f"first_p{q}_s": _percentile(firsts, q) for q in (50, 95)},
            "runs_per_s": count.served / spent,
            "replicas_busy": count.busy_s / spent / self.hall.replicas,
            "webs_busy": count.web_s / spent / self.hall.webs,
            "refusals": count.refusals,
            "given_up": count.given_up,
            "bytes_per_s": count.bytes_sent / spent,
            "most_waiting": count.most_waiting,
            "most_here": count.most_here,
            "losses": count.losses,
            "repeated_steps": sum(run.repeated for run in count.done),
            "until_s": self.until_s,
        }


def _number(value: float | None) -> float:
    assert value is not None
    return value


def _percentile(values: np.ndarray, q: float) -> float:
    return float(np.percentile(values, q)) if len(values) else math.nan


class _Course:
    """One simulation as it goes on."""

    def __init__(self, kinds: Sequence[Kind], crowd: Crowd, hall: Hall, seed: int) -> None:
        self.kinds, self.crowd, self.hall = kinds, crowd, hall
        self.env = simpy.Environment()
        self.arrivals, self.draws = random.Random(f"{seed}/come"), random.Random(f"{seed}/runs")
        self.count = HallCounts()
        self.router = Router(
            self.env, hall, random.Random(f"{seed}/router"), self.count, self._ended
        )
        self.here = 0
        self._since = 0.0
        self._over: dict[int, simpy.Event] = {}
        self._free_at = [0.0] * hall.webs
        self._work: list[float] = [kind.web_s for kind in kinds]

    def go(self, until_s: float | None) -> Simulated:
        """Go on until everybody has left, or for so long."""
        self.env.process(self._come())
        if until_s is None:
            done = self.env.event()
            self._all_left = done
            self.env.run(done)
        else:
            self._all_left = None
            self.env.run(until_s)
        self._pages()
        going = self.count.arrived - self.count.served - self.count.given_up
        return Simulated(self.count, self.env.now, going, self.hall)

    def _come(self) -> Generator[Any, Any, None]:
        gap = self.crowd.over_s / self.crowd.visitors
        self.left = self.crowd.visitors
        for number in range(self.crowd.visitors):
            if gap:
                yield self.env.timeout(self.arrivals.expovariate(1 / gap))
            self.env.process(self._visit(number))

    def _visit(self, number: int) -> Generator[Any, Any, None]:
        self._stay(1)
        for turn in range(self.crowd.runs):
            if turn and self.crowd.think_s:
                yield self.env.timeout(self.arrivals.expovariate(1 / self.crowd.think_s))
            run = self._press(number, turn)
            yield self.env.timeout(self._web_delay(number, run))
            while not self.router.send(run):
                run.refusals += 1
                self.count.refusals += 1
                if run.refusals > self.crowd.retries:
                    break
                yield self.env.timeout(self.arrivals.expovariate(1 / self.crowd.retry_s))
            if run.refusals > self.crowd.retries:
                self.count.given_up += 1
                continue
            run.stood_at = self.env.now
            if run.ended_at is None:
                over = self._over[id(run)] = self.env.event()
                yield over
        self._stay(-1)
        self.left -= 1
        if not self.left and self._all_left is not None:
            self._all_left.succeed()

    def _press(self, number: int, turn: int) -> SimulatedRun:
        if self.crowd.turns:
            which = (number * self.crowd.runs + turn) % len(self.kinds)
        else:
            which = chosen(self.kinds, self.draws.random())
        kind = self.kinds[which]
        measured = self.draws.randrange(len(kind.seconds))
        first = kind.first_s[measured % len(kind.first_s)]
        self.count.arrived += 1
        return SimulatedRun(number, kind, kind.seconds[measured], first, self.env.now)

    def _web_delay(self, number: int, run: SimulatedRun) -> float:
        """Return how long a web process takes to begin a run: it does one thing after the other."""
        if not run.kind.web_s:
            return 0.0
        which = number % self.hall.webs
        pages = self.here * self.hall.idle_web_s / self.hall.webs
        own = run.kind.web_s / (1 - min(_SOONEST, pages))
        begins = max(self.env.now, self._free_at[which])
        self._free_at[which] = begins + own
        self.count.web_s += run.kind.web_s
        return begins - self.env.now

    def _ended(self, run: SimulatedRun) -> None:
        run.ended_at = self.env.now
        # Who was refused does not wait in a line meanwhile.
        waited = max(0.0, _number(run.began_at) - run.stood_at)
        self.count.served += 1
        self.count.done.append(run)
        self.count.bytes_sent += run.kind.bytes_sent
        self.count.web_s += waited * self.hall.waiting_web_s
        over = self._over.pop(id(run), None)
        if over is not None:
            over.succeed()

    def _stay(self, more: int) -> None:
        self._pages()
        self.here += more
        self.count.most_here = max(self.count.most_here, self.here)

    def _pages(self) -> None:
        """Tally what the pages that are open have cost."""
        gone = self.env.now - self._since
        self._since = self.env.now
        self.count.web_s += gone * self.here * self.hall.idle_web_s


def simulate(
    kinds: Sequence[Kind], crowd: Crowd, hall: Hall, seed: int = 0, until_s: float | None = None
) -> Simulated:
    """Let a crowd come to a hall.

    Args:
        kinds: of runs that are asked for.
        crowd: who comes.
        hall: what serves.
        seed: of all that is drawn.
        until_s: when to stop looking; None for when everybody has left.
    """
    return _Course(kinds, crowd, hall, seed).go(until_s)


def repeated(
    kinds: Sequence[Kind], crowd: Crowd, hall: Hall, n: int, seed: int = 0
) -> dict[str, dict[str, float]]:
    """Simulate ``n`` times; return median, least and most of every figure by its name."""
    found = [simulate(kinds, crowd, hall, seed + number).figures() for number in range(n)]
    return {
        name: {
            "median": float(np.median([one[name] for one in found])),
            "min": min(one[name] for one in found),
            "max": max(one[name] for one in found),
            "n": n,
        }
        for name in found[0]
    }
