"""What a simulation is told: the runs that are asked for, who asks for them, and what serves them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

ALONE = (1.0,)
"""Costs of a pass where nothing is shared."""


@dataclass(frozen=True)
class Kind:
    """Runs that are alike.

    Attributes:
        name: of the strategy.
        seconds: for which such a run had its turn, alone, one value for each that was measured; one is drawn.
        first_s: from the beginning of its turn to its first step, alone, in the order of ``seconds``.
        steps: of one run.
        shares: whether its passes can be shared with others of such kinds.
        bytes_sent: to the page, of one run, as measured before the network packs it.
        web_s: processor seconds of the web process for one run.
        weight: how often it is asked for, in proportion to the others.
    """

    name: str
    seconds: tuple[float, ...]
    first_s: tuple[float, ...] = (0.0,)
    steps: int = 1
    shares: bool = False
    bytes_sent: float = 0.0
    web_s: float = 0.0
    weight: float = 1.0

    @classmethod
    def read(cls, told: Mapping[str, Any]) -> Kind:
        """Return a kind as a file of costs tells it."""
        lists = {name: tuple(told[name]) for name in ("seconds", "first_s")}
        return cls(**{**told, **lists})


@dataclass(frozen=True)
class Crowd:
    """Who comes, and when.

    Attributes:
        visitors: in all.
        runs: of each, one after the other.
        over_s: within which they come: as a Poisson process, or all of a burst at once for 0.
        think_s: mean of the exponential time between a run's end and the next press; 0 for none.
        retry_s: mean of the exponential time after which somebody who was refused presses again.
        retries: how often one does so for a run before one gives it up.
        turns: whether the kinds are asked for in turn, as the load programme does, and not by chance.
    """

    visitors: int
    runs: int = 1
    over_s: float = 0.0
    think_s: float = 0.0
    retry_s: float = 10.0
    retries: int = 20
    turns: bool = False


@dataclass(frozen=True)
class Hall:
    """What serves.

    Attributes:
        replicas: each computes one run at a time, or one batch of runs that share passes.
        shared_line: whether all replicas take from one line; else each has its own, and a run goes to
            that of two drawn ones which has fewer.
        batch: most runs that share passes.
        pass_cost: what a pass of n rows takes, in passes of one row, for n = 1, 2, …; the last goes on in proportion.
        max_waiting: runs that may wait in one line.
        handover_s: between a run's end and the next run's beginning.
        crowding: by which share a turn takes longer when ``crowded_by`` runs, or more, wait beside it.
        crowded_by: where that is all: the engine's line limits how often all who wait look together. 0 for always.
        lost_every_s: a replica is lost so often, each in turn; 0 for never.
        lost_until_s: when that is over.
        restart_s: until a lost replica serves again.
        webs: web processes.
        idle_web_s: processor seconds that a page that is open costs a web process in a second.
        waiting_web_s: the same of one that waits, besides.
    """

    replicas: int = 1
    shared_line: bool = False
    batch: int = 1
    pass_cost: tuple[float, ...] = ALONE
    max_waiting: float = math.inf
    handover_s: float = 0.0
    crowding: float = 0.0
    crowded_by: int = 25
    lost_every_s: float = 0.0
    lost_until_s: float = math.inf
    restart_s: float = 0.0
    webs: int = 1
    idle_web_s: float = 0.0
    waiting_web_s: float = 0.0

    def slower(self, waiting: int) -> float:
        """Return how many times as long a turn takes beside so many that wait."""
        share = min(1.0, waiting / self.crowded_by) if self.crowded_by else 1.0
        return 1 + self.crowding * share

    def cost(self, rows: int) -> float:
        """Return what a pass of so many rows takes, in passes of one."""
        known = len(self.pass_cost)
        if rows <= known:
            return self.pass_cost[rows - 1]
        return self.pass_cost[-1] * rows / known


def pass_costs(gains: Mapping[int, float]) -> tuple[float, ...]:
    """Return what passes of 1, 2, … rows cost, from the gain in throughput that was measured at some of them."""
    points = sorted({1: 1.0, **gains}.items())
    costs = []
    for (low, gain), (high, more) in pairwise(points):
        begin, end = low / gain, high / more
        costs += [begin + (end - begin) * n / (high - low) for n in range(high - low)]
    rows, gain = points[-1]
    return (*costs, rows / gain)


@dataclass(slots=True)
class SimulatedRun:
    """One press of Run in a simulation; times are in seconds since the beginning.

    Attributes:
        work_s: what it takes alone.
        left_s: what is left of that.
        ended_at: None while it goes on, or where it was given up.
        repeated: steps that were computed again after a replica was lost.
        stood_at: when it found room in a line.
    """

    visitor: int
    kind: Kind
    work_s: float
    first_s: float
    pressed_at: float
    left_s: float = 0.0
    began_at: float | None = None
    first_at: float | None = None
    ended_at: float | None = None
    refusals: int = 0
    repeated: int = 0
    losses: int = 0
    stood_at: float = 0.0


@dataclass
class HallCounts:
    """What a simulation has counted.

    Attributes:
        arrived: presses, each once, however often it was pressed again.
        served: that came to their end.
        given_up: after as many refusals as somebody bears.
        refusals: presses that found a full line.
        busy_s: seconds that replicas computed, all together.
        web_s: processor seconds of the web processes, all together.
    """

    arrived: int = 0
    served: int = 0
    given_up: int = 0
    refusals: int = 0
    losses: int = 0
    busy_s: float = 0.0
    web_s: float = 0.0
    bytes_sent: float = 0.0
    most_waiting: int = 0
    most_here: int = 0
    done: list[SimulatedRun] = field(default_factory=list)


def chosen(kinds: Sequence[Kind], value: float) -> int:
    """Return the number of the kind at a place between 0 and 1 of all their weights."""
    at = value * sum(kind.weight for kind in kinds)
    for number, kind in enumerate(kinds):
        at -= kind.weight
        if at < 0:
            return number
    return len(kinds) - 1
