"""How long somebody who merely looks waits for an answer while runs of all strategies go on."""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from benchmarks.about import Goal
from benchmarks.reliability.cards import Measured, Part
from benchmarks.reliability.probe import probing
from benchmarks.reliability.requests import short_request
from engine.strategies import STRATEGIES
from tests.helpers.client import Client
from tests.helpers.server import process

_PATHS = ("/", "/config")
_AT_ONCE = 6
_TOKENS = 40
_GOAL_S = 1.0


def _calls(url: str, seeds: count[int], ended: threading.Event) -> int:
    """Run one thing after the other until it is over; return how many were answered."""
    client, names, done = Client(url), list(STRATEGIES), 0
    with client.http:
        while not ended.is_set():
            number = next(seeds)
            request = short_request(names[number % len(names)], number, _TOKENS)
            event, _ = client.call(
                request.strategy, request.prompt, None, dict(request.params), request.seed
            )
            done += event == "complete"
    return done


def watched(url: str, n: float, seed: int) -> Measured:
    """Probe a server for ``n`` seconds beside runs over the API."""
    ended, seeds = threading.Event(), count(seed)
    with ThreadPoolExecutor(_AT_ONCE) as pool, probing(url, _PATHS) as probe:
        callers = [pool.submit(_calls, url, seeds, ended) for _ in range(_AT_ONCE)]
        ended.wait(n)
        ended.set()
        runs = sum(caller.result() for caller in callers)
    seconds = sorted(probe.seconds)
    figures = {
        "failed": probe.failed,
        "worst_s": probe.worst_s,
        "p95_s": round(seconds[int(0.95 * len(seconds))], 3),
        "median_s": round(seconds[len(seconds) // 2], 3),
        "runs_beside": runs,
    }
    return Measured(len(seconds), figures)


def measure(n: int, seed: int) -> Measured:
    """Serve from a process of its own and probe it for ``n`` seconds."""
    with tempfile.TemporaryDirectory() as folder, process(Path(folder) / "log.txt") as (url, _):
        return watched(url, n, seed)


PART = Part(
    name="liveness",
    title="The page and its config asked for beside runs of all strategies (n answers)",
    goals={"failed": Goal(0), "worst_s": Goal(_GOAL_S, of_speed=True)},
    measure=measure,
    short=20,
    nightly=300,
)
