"""The simulation beside what it simulates: the same visitors, runs and lengths, timed in one session.

``python -m benchmarks.scale.compare [local|ray] [--visitors 10 50 100]`` runs the load programme without kills and
simulates it with what its runs took alone just before and just after, as a machine's speed changes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from benchmarks.about import commit, machine, now, versions
from benchmarks.scale.hall import apart, crowded_by
from benchmarks.scale.simulate import repeated
from benchmarks.scale.world import Crowd, Hall, Kind

WITHIN = 0.2
VISITORS = (10, 50, 100)
_MEASURED_RUNS = 100
"""Of crowds of one size together: who waits for whom is chance, and a small crowd is little of it."""
REPEATS = 9
_FIGURES = ("wait_p50_s", "wait_p95_s", "first_p50_s", "first_p95_s", "runs_per_s")
JUDGED = ("wait_p50_s", "wait_p95_s")


def simulated(found: Mapping[str, Any], crowd: Crowd, hall: Hall) -> dict[str, dict[str, float]]:
    """Simulate what was measured.

    Args:
        found: figures of the load programme, with what every run took alone.
        crowd: who came; the runs are asked for in the programme's order.
        hall: what served.
    """
    # Runs alone before and after: the machine was as fast in between as it was at either end, on average.
    pace = (found["solo_s"] + found["solo_after_s"]) / 2 / found["solo_s"]
    kinds = []
    for told in found["kinds"]:
        kind = Kind.read(told)
        seconds, first_s = (
            tuple(pace * value for value in values) for values in (kind.seconds, kind.first_s)
        )
        kinds.append(Kind(kind.name, seconds, first_s, kind.steps))
    return repeated(kinds, crowd, hall, REPEATS)


def compared(
    where: str, visitors: int, runs: int, steps: int, hall: Hall, more: Sequence[str] = ()
) -> dict[str, Any]:
    """Measure, simulate, and return both beside each other with measured ÷ simulated."""
    arguments = [where, f"--visitors={visitors}", f"--runs={runs}", f"--steps={steps}", *more]
    crowds = max(1, _MEASURED_RUNS // (visitors * runs))
    arguments += [f"--replicas={hall.replicas}", f"--crowds={crowds}"]
    found = apart(arguments, visitors)
    crowd = Crowd(visitors, runs, turns=True)
    hall = replace(hall, crowding=found["crowding"], crowded_by=crowded_by(where))
    told = simulated(found, crowd, hall)
    rows = {
        name: {
            "measured": found[name],
            "simulated": round(told[name]["median"], 3),
            "least": round(told[name]["min"], 3),
            "most": round(told[name]["max"], 3),
            "ratio": round(told[name]["median"] / found[name], 3),
        }
        for name in _FIGURES
    }
    return {
        "where": where,
        "visitors": visitors,
        "runs": visitors * runs,
        "steps": steps,
        "crowds": crowds,
        "replicas": hall.replicas,
        "solo_s": found["solo_s"],
        "solo_after_s": found["solo_after_s"],
        "crowding": found["crowding"],
        "wrong": {name: found[name] for name in ("runs_lost", "steps_lost", "doubled", "unequal")},
        "figures": rows,
        "within": all(abs(rows[name]["ratio"] - 1) <= WITHIN for name in JUDGED),
    }


def main() -> int:
    """Compare at every size, tell, and return 1 if a waiting time is off by more than a fifth."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.compare", description=__doc__)
    parser.add_argument("where", nargs="?", choices=("local", "ray"), default="local")
    parser.add_argument("--visitors", type=int, nargs="+", default=VISITORS)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=2, help="of every run alone")
    read = parser.parse_args()
    hall = Hall(replicas=1 if read.where == "local" else 2)
    more = [f"--repeats={read.repeats}", "--no-custom"]
    found = []
    for visitors in read.visitors:
        one = compared(read.where, visitors, read.runs, read.steps, hall, more)
        found.append({**one, "machine": machine(), "date": now()})
        ratios = ", ".join(
            f"{name} {row['simulated']:g} / {row['measured']:g} = {row['ratio']:g}"
            for name, row in one["figures"].items()
        )
        print(f"{read.where}, {visitors} visitors: {ratios}", flush=True)
    told = {"compare": read.where, "rows": found, "commit": commit(), "versions": versions()}
    print(json.dumps(told))
    return int(not all(one["within"] for one in found))


if __name__ == "__main__":
    sys.exit(main())
