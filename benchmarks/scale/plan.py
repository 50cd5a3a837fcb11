"""From measured costs to a hall of a hundred thousand: simulations by size, what bends first, and money.

``python -m benchmarks.scale.plan`` takes the costs and comparisons that docs/scale.json has.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.scale.simulate import repeated
from benchmarks.scale.world import Crowd, Hall, Kind, pass_costs

SIZES = (10, 100, 1_000, 3_000, 4_000, 5_000, 10_000, 100_000)
HOUR_S, RUNS, THINK_S, STAY_S = 3600.0, 3, 60.0, 180.0
"""Everybody comes within an hour, presses so often, and reads about a minute in between."""
FULL = 0.7
"""The share of a process that is planned for; the rest is for the moments at which many come at once."""
REPEATS = 3
GAINS = {2: 1.9, 4: 3.1, 8: 5.6}
"""Throughput of a shared forward pass of so many rows against one row, Storyteller on 2 cores."""
LOST_EVERY_S, RESTART_S = 600.0, 30.0
NETWORK_BYTES_PER_S, WEB_MEMORY_BYTES = 125e6, 4e9
JOURNAL_BYTES = 200e6
KEPT = ("wait_p50_s", "wait_p95_s", "wait_p99_s", "first_p50_s", "first_p95_s", "runs_per_s")
KEPT += ("replicas_busy", "webs_busy", "refusals", "given_up", "bytes_per_s", "most_here")
KEPT += ("losses", "repeated_steps")


@dataclass(frozen=True)
class Machine:
    """A kind of machine that can be rented.

    Attributes:
        per_hour: its price, US dollars; an assumption.
        replicas: that it has room for.
        speed: of one of its replicas beside the measured one.
    """

    name: str
    per_hour: float
    replicas: int
    speed: float
    basis: str


PRICES_OF = "2026-11-23"
MACHINES = (
    Machine("2 shared cores, 8 GB", 0.08, 2, 1.0, "speed as measured here"),
    Machine("16 cores, 64 GB", 0.70, 16, 1.0, "one core for each replica, assumed as fast"),
    Machine(
        "one GPU of 24 GB, 8 cores",
        0.90,
        4,
        2.0,
        "assumed: no GPU was at hand; the record stays on the processor",
    ),
)


def kinds_from(cost: Mapping[str, Any]) -> list[Kind]:
    """Return the measured kinds of runs."""
    return [
        Kind(
            one["name"],
            tuple(one["seconds"]),
            tuple(one["first_s"]),
            one["steps"],
            one["shares"],
            one["bytes_sent"],
            one["web_s"],
        )
        for one in cost["kinds"]
    ]


def mean_s(cost: Mapping[str, Any]) -> float:
    """Return the seconds of a replica that a run of the mix takes."""
    return statistics.fmean(statistics.fmean(one["seconds"]) for one in cost["kinds"])


def web_s(cost: Mapping[str, Any]) -> float:
    """Return the processor seconds of a web process that a visit takes."""
    run = statistics.fmean(one["web_s"] for one in cost["kinds"])
    return cost["open_cpu_s"] + RUNS * run + STAY_S * cost["idle_web_s"]


def limits(cost: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return how many visitors an hour one of every resource bears, the scarcest first."""
    sent = statistics.fmean(one["bytes_sent"] for one in cost["kinds"])
    here = HOUR_S / STAY_S
    found = [
        ("one replica's time", FULL * HOUR_S / (RUNS * mean_s(cost))),
        ("one web process's time", FULL * HOUR_S / web_s(cost)),
        (
            "1 Gbit/s of network",
            FULL * NETWORK_BYTES_PER_S * HOUR_S / (cost["open_bytes"] + RUNS * sent),
        ),
        ("4 GB of a web process", here * WEB_MEMORY_BYTES / max(1.0, cost["visitor_bytes"])),
        ("200 MB of journal, kept for an hour", JOURNAL_BYTES / (RUNS * cost["journal_bytes"])),
    ]
    rows = [{"what": what, "visitors_per_hour": round(value)} for what, value in found]
    return sorted(rows, key=lambda row: row["visitors_per_hour"])


def grown(cost: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Simulate every size: with as many processes as the plan says, and with two replicas for all."""
    kinds, rows = kinds_from(cost), []
    for visitors in SIZES:
        crowd = Crowd(visitors, RUNS, HOUR_S, THINK_S)
        replicas = max(2, math.ceil(visitors * RUNS * mean_s(cost) / HOUR_S / FULL))
        webs = max(1, math.ceil(visitors * web_s(cost) / HOUR_S / FULL))
        n = REPEATS if visitors < SIZES[-1] else 1
        for name, hall in (
            ("planned", _hall(cost, replicas, webs)),
            ("planned, passes shared", _hall(cost, replicas, webs, batch=8)),
            ("2 replicas", _hall(cost, 2, 1)),
        ):
            if (name == "2 replicas") != (visitors in (3_000, 4_000, 5_000)) and visitors != 1_000:
                continue
            told = repeated(kinds, crowd, hall, n)
            rows.append(
                {
                    "hall": name,
                    "visitors": visitors,
                    "replicas": hall.replicas,
                    "webs": hall.webs,
                    "figures": {key: told[key] for key in KEPT},
                }
            )
    return rows


def _hall(cost: Mapping[str, Any], replicas: int, webs: int, batch: int = 1) -> Hall:
    return Hall(
        replicas=replicas,
        batch=batch,
        pass_cost=pass_costs(GAINS),
        max_waiting=32,
        lost_every_s=LOST_EVERY_S,
        lost_until_s=HOUR_S,
        restart_s=RESTART_S,
        webs=webs,
        idle_web_s=cost["idle_web_s"],
        waiting_web_s=cost["waiting_web_s"],
    )


def money(cost: Mapping[str, Any], machines: Sequence[Machine] = MACHINES) -> list[dict[str, Any]]:
    """Return runs per hour and US dollars per thousand runs of every kind of machine."""
    rows = []
    for one in machines:
        runs = FULL * HOUR_S * one.replicas * one.speed / mean_s(cost)
        rows.append(
            {
                "machine": one.name,
                "per_hour": one.per_hour,
                "runs_per_hour": round(runs),
                "per_thousand": round(1000 * one.per_hour / runs, 4),
                "basis": one.basis,
            }
        )
    return rows
