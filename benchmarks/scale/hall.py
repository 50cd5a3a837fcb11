"""The load programme: visitors who press Run all at once, on one engine or on replicas of which some are killed.

``python -m benchmarks.scale.hall local|ray|web [--visitors 100 --runs 3 --steps 50 --kill-s 5 --for-s 60]`` prints a
card and one JSON line. What every run should be is asked of the engine of this process first, alone.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from benchmarks.about import ROOT, Goal, commit, machine, now, versions

if TYPE_CHECKING:
    from benchmarks.scale.mix import Told
    from engine import DecodeRequest

Ask = Callable[..., Any]
REPLICA_TITLE = "ray::ServeReplica"
_HERE = "SCALE_HALL_HERE"
_CROWD, _CROWDED_BY = 40, 25
_COUNTS = (
    "runs",
    "steps",
    "runs_lost",
    "steps_lost",
    "doubled",
    "foreign",
    "unequal",
    "begun_anew",
)
GOALS = {name: Goal(0) for name in ("runs_lost", "steps_lost", "doubled", "foreign", "unequal")}


@dataclass(frozen=True)
class Load:
    """How much is asked for, and what is broken meanwhile.

    Attributes:
        kill_s: a replica is killed so often; 0 for never.
        for_s: how long that goes on.
        custom: whether custom methods are among the runs.
        restart: whether the web process, where there is one, is killed once.
        crowds: that come one after the other; how long they waited is the median of theirs.
    """

    visitors: int = 100
    runs: int = 3
    steps: int = 50
    replicas: int = 2
    kill_s: float = 0.0
    for_s: float = 60.0
    custom: bool = True
    restart: bool = False
    crowds: int = 1


def visits(load: Load, requests: Sequence[DecodeRequest], ask: Ask) -> list[tuple[int, Told]]:
    """Let everybody press Run so often, one run after the other, all visitors at once.

    Returns:
        The number of the request, and what was heard, of every run.
    """
    from benchmarks.scale.mix import heard
    from engine.run.visitor import VISITOR, Visitor

    together = threading.Barrier(load.visitors)

    def visit(number: int) -> list[tuple[int, Told]]:
        VISITOR.set(Visitor(f"visitor {number}", "page"))
        asked = [(number * load.runs + turn) % len(requests) for turn in range(load.runs)]
        together.wait()
        return [(which, heard(requests[which], ask)) for which in asked]

    with ThreadPoolExecutor(load.visitors) as pool:
        found = list(pool.map(visit, range(load.visitors)))
    return [run for runs in found for run in runs]


def judged(
    found: Sequence[tuple[int, Told]],
    expected: Sequence[Told],
    requests: Sequence[DecodeRequest],
) -> dict[str, float]:
    """Return what went wrong, and how long everybody waited.

    Args:
        found: the number of the request and what was heard, of every run.
        expected: what each request comes to alone.
        requests: what was asked for.
    """
    lost = doubled = unequal = foreign = 0
    for which, told in found:
        right, got = Counter(expected[which].indices), Counter(told.indices)
        lost += (right - got).total()
        doubled += (got - right).total()
        unequal += told.tokens != expected[which].tokens
        foreign += told.seed is not None and told.seed != requests[which].seed
    waits, firsts = ([getattr(t, name) for _, t in found] for name in ("wait_s", "first_s"))
    span = max(told.ended_at for _, told in found) - min(told.pressed_at for _, told in found)
    return {
        "runs": len(found),
        "runs_lost": sum(told.tokens is None for _, told in found),
        "steps": sum(len(told.indices) for _, told in found),
        "steps_lost": lost,
        "doubled": doubled,
        "foreign": foreign,
        "unequal": unequal,
        "begun_anew": sum(told.anew for _, told in found),
        **_percentiles("wait", waits),
        **_percentiles("first", firsts),
        "seconds": round(span, 2),
        "runs_per_s": round(len(found) / span, 3),
    }


def _together(crowds: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return what went wrong in all crowds, and the medians of the other figures."""
    counts = {name: sum(crowd[name] for crowd in crowds) for name in _COUNTS}
    medians = {
        name: round(statistics.median(crowd[name] for crowd in crowds), 3)
        for name in crowds[0]
        if name not in counts
    }
    return {**medians, **counts}


def _percentiles(name: str, values: Sequence[float]) -> dict[str, float]:
    return {f"{name}_p{q}_s": round(float(np.percentile(values, q)), 3) for q in (50, 95)}


def replica_pids() -> list[int]:
    """Return the processes of the replicas that this process has started."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if " ".join(child.cmdline()).startswith(REPLICA_TITLE):
                found.append(child.pid)
    return found


@contextmanager
def killing(load: Load) -> Iterator[list[int]]:
    """Kill a replica every so often while the block goes on; yields those that were killed."""
    killed: list[int] = []
    over = threading.Event()

    def kill() -> None:
        until = time.monotonic() + load.for_s
        while not over.wait(load.kill_s) and time.monotonic() < until:
            pids = [pid for pid in replica_pids() if pid not in killed]
            if pids:
                # The oldest: one that was just started has hardly begun.
                victim = min(pids, key=_started_at)
                with suppress(psutil.Error):
                    psutil.Process(victim).kill()
                    killed.append(victim)

    thread = threading.Thread(target=kill, daemon=True)
    if load.kill_s:
        thread.start()
    try:
        yield killed
    finally:
        over.set()
        if load.kill_s:
            thread.join()


def _started_at(pid: int) -> float:
    with suppress(psutil.Error):
        return psutil.Process(pid).create_time()
    return time.time()


@contextmanager
def replicas(load: Load) -> Iterator[tuple[Ask, str]]:
    """Start replicas on this machine; yields whom to ask for a run, and the address of their cluster."""
    from engine.serving import cluster
    from engine.serving.client import RemoteRun
    from engine.serving.deployment import deploy_replicas

    cores = cluster.cores_per_replica(load.replicas)
    address = cluster.start_ray(load.replicas * cores)
    try:
        cluster.use_replicas(deploy_replicas(load.replicas, cpus_per_replica=cores))
        yield RemoteRun, address
    finally:
        cluster.leave_ray()


def held() -> dict[str, Any]:
    """Return the memory, files and threads of this process and of its replicas now."""
    own = psutil.Process()
    sizes = []
    for pid in replica_pids():
        with suppress(psutil.Error):
            sizes.append(round(psutil.Process(pid).memory_info().rss / 1e6))
    return {
        "rss_mb": round(own.memory_info().rss / 1e6),
        "replicas_rss_mb": sizes,
        "files": own.num_fds(),
        "threads": own.num_threads(),
    }


def measure(where: str, load: Load, repeats: int = 1) -> dict[str, Any]:
    """Run the programme in this process and return its figures.

    Args:
        where: local or ray.
        load: how much is asked for.
        repeats: how often every request is run alone before.
    """
    from benchmarks.scale.mix import alone, kinds_of, requests_of
    from engine import decode

    requests = requests_of(load.steps, load.custom)
    expected = [told[0] for told in alone(requests, 1)]
    if where == "local":
        return _measured(load, requests, expected, decode, repeats, alone, kinds_of)
    with replicas(load) as (ask, address):
        if where == "web":
            from benchmarks.scale.hall_web import visited

            with killing(load) as killed:
                found = visited(load, requests, f"ray://{address}")
            wrong = sorted({told.error for _, told in found if told.error})[:5]
            return {**judged(found, expected, requests), "killed": len(killed), "errors": wrong}
        return _measured(load, requests, expected, ask, repeats, alone, kinds_of)


def _measured(
    load: Load,
    requests: list[DecodeRequest],
    expected: list[Told],
    ask: Ask,
    repeats: int,
    alone: Callable[..., Any],
    kinds_of: Callable[..., Any],
) -> dict[str, Any]:
    solo = alone(requests, repeats, ask)
    crowding = _crowding(load, requests, solo, ask) if not load.kill_s else 0.0
    before = held()
    with killing(load) as killed:
        crowds = [visits(load, requests, ask) for _ in range(load.crowds)]
    found = [run for crowd in crowds for run in crowd]
    after_s = [told.ended_at - told.pressed_at for (told,) in alone(requests, 1, ask)]
    kinds = [
        {"name": kind.name, "seconds": kind.seconds, "first_s": kind.first_s, "steps": kind.steps}
        for kind in kinds_of(requests, solo)
    ]
    return {
        **_together([judged(crowd, expected, requests) for crowd in crowds]),
        "killed": len(killed),
        "before": before,
        "after": held(),
        "errors": sorted({told.error for _, told in found if told.error})[:5],
        "crowding": round(crowding, 4),
        "solo_s": round(
            statistics.fmean(t.ended_at - t.pressed_at for all_t in solo for t in all_t), 4
        ),
        "solo_after_s": round(statistics.fmean(after_s), 4),
        "kinds": kinds,
    }


def _crowding(
    load: Load, requests: Sequence[DecodeRequest], solo: Sequence[Sequence[Told]], ask: Ask
) -> float:
    """Return by which share a turn takes longer in company, from a crowd of its own."""
    found = visits(replace(load, visitors=_CROWD, runs=1), requests, ask)
    mean = [statistics.fmean(told.ended_at - told.pressed_at for told in of) for of in solo]
    work = sum(mean[which] for which, _ in found)
    span = max(t.ended_at for _, t in found) - min(t.pressed_at for _, t in found)
    replicas = 1 if ask.__name__ == "decode" else load.replicas
    most = crowded_by("local" if replicas == 1 else "ray")
    lines = (min(1.0, left / replicas / most) for left in range(_CROWD))
    return max(0.0, (span * replicas / work - 1) / statistics.fmean(lines))


def crowded_by(where: str) -> int:
    """Return from how many waiting runs on a line takes no more of its engine's time.

    All who wait in a line look together only so often, and of a replica's line most wait elsewhere.

    Args:
        where: local or ray.
    """
    from engine.settings import SETTINGS

    return _CROWDED_BY if where == "local" else min(_CROWDED_BY, SETTINGS.max_replica_runs - 1)


def apart(arguments: Sequence[str], visitors: int) -> dict[str, Any]:
    """Run the programme in a process of its own, with room for everybody; return its figures.

    Args:
        arguments: of this module's command line.
        visitors: how many have to find room in the line.

    Raises:
        RuntimeError: it failed.
    """
    room = {"PLAYGROUND_MAX_WAITING_RUNS": str(visitors + 8), "OMP_NUM_THREADS": "1"}
    room |= {"PLAYGROUND_MAX_UNANSWERED_S": "600"}
    command = [sys.executable, "-m", "benchmarks.scale.hall", *arguments]
    env = {**os.environ, **room, _HERE: "1"}
    done = subprocess.run(
        command, check=False, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise RuntimeError(f"the hall ended with status {done.returncode}: {done.stdout[-2000:]}")
    return json.loads(lines[-1])


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, tell, and return 1 if anything was lost, doubled, foreign or unequal."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.hall", description=__doc__)
    parser.add_argument("where", choices=("local", "ray", "web"))
    parser.add_argument("--visitors", type=int, default=100)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--kill-s", type=float, default=0.0)
    parser.add_argument("--for-s", type=float, default=60.0)
    parser.add_argument("--no-custom", action="store_true")
    parser.add_argument("--restart", action="store_true", help="kill the web process once")
    parser.add_argument("--repeats", type=int, default=1, help="runs of every request alone before")
    parser.add_argument("--crowds", type=int, default=1, help="that come one after the other")
    arguments = sys.argv[1:] if argv is None else list(argv)
    read = parser.parse_args(arguments)
    load = Load(
        read.visitors,
        read.runs,
        read.steps,
        read.replicas,
        read.kill_s,
        read.for_s,
        not read.no_custom,
        read.restart,
        read.crowds,
    )
    if os.environ.get(_HERE):
        print(json.dumps(measure(read.where, load, read.repeats)), flush=True)
        return 0
    about = {"date": now(), "commit": commit(), "machine": machine(), "versions": versions()}
    found = apart(arguments, load.visitors)
    missed = [name for name, goal in GOALS.items() if not goal.met(found[name])]
    print(f"hall, {read.where}: {'NOT HELD: ' + ', '.join(missed) if missed else 'held'}")
    print(", ".join(f"{name} {value}" for name, value in found.items() if name != "kinds"))
    told = {"hall": read.where, "load": vars(load), "held": not missed, **found, **about}
    print(json.dumps(told), flush=True)
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
