"""Runs on two replicas: what a replica still begins after a cancel, and what runs leave behind.

The replica itself counts the steps that begin after the one that a cancel falls in.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from typing import Any

from benchmarks.about import Goal
from benchmarks.figures import Figure, tell
from engine import DecodeRequest
from engine.serving import cluster
from engine.serving.client import RemoteRun
from engine.trace.events import Failed, StepRecorded

REPLICAS = 2
STRATEGIES = ("greedy", "sampling", "beam_search", "speculative")
NOTHING = f"Ray is not installed here: {cluster.INSTALL_COMMAND}."
_LONG = 400
_LATE, _MORE_MB, _MORE_FILES, _MORE_THREADS = Goal(1), Goal(32), Goal(4), Goal(4)


def request_of(number: int, tokens: int) -> DecodeRequest:
    """Return one of many different runs, of exactly so many tokens."""
    strategy = STRATEGIES[number % len(STRATEGIES)]
    params = {"max_new_tokens": tokens, "min_new_tokens": tokens}
    return DecodeRequest(strategy, "storyteller", "Once upon a time", params=params, seed=number)


def ended(request: DecodeRequest, cancel_at: int | None = None) -> None:
    """Make a run to its end, or cancel it at a step.

    Raises:
        EngineError: it failed.
    """
    run = RemoteRun(request)
    for event in run:
        if isinstance(event, Failed):
            raise event.error
        if isinstance(event, StepRecorded) and event.step.index == cancel_at:
            run.cancel()


def reports() -> dict[int, dict[str, Any]]:
    """Return what every replica says of itself, by its process."""
    return {report["pid"]: report for report in cluster.collect_reports()}


def cancelled(count: int) -> list[float]:
    """Cancel so many runs, and return the steps that each replica began afterwards."""
    for number in range(count):
        ended(request_of(number, _LONG), cancel_at=5 + number % 7)
    late = [float(steps) for report in reports().values() for steps in report["steps_after_stop"]]
    assert len(late) == count, late
    return late


def left_behind(runs: int, tokens: int) -> list[Figure]:
    """Make so many runs, and return what every replica holds more than before; a fifth of them goes first."""
    for number in range(runs // 5):
        ended(request_of(number, tokens))
    before = reports()
    for number in range(runs):
        ended(request_of(number, tokens))
    after = reports()

    def more(name: str, unit: float = 1.0) -> list[float]:
        return [(after[pid][name] - before[pid][name]) / unit for pid in before]

    about = f"{runs} runs on {REPLICAS} replicas, more of each"
    return [
        Figure(f"{about}: memory, MB", more("rss_bytes", 1e6), _MORE_MB, digits=1),
        Figure(f"{about}: open files", more("open_files"), _MORE_FILES),
        Figure(f"{about}: threads", more("threads"), _MORE_THREADS),
    ]


def measure(cancels: int, runs: int, tokens: int) -> list[Figure]:
    """Start replicas, and return all figures."""
    cluster.start_ray(cores=REPLICAS)
    # Ray reads its environment when it is imported.
    from engine.serving.deployment import deploy_replicas
    from tests.helpers.replicas import WatchedReplica

    try:
        cluster.use_replicas(deploy_replicas(REPLICAS, replica=WatchedReplica))
        late = cancelled(cancels)
        most = Figure("steps that a replica began after a cancel, the most", [max(late)], _LATE)
        return [
            most,
            Figure("steps that a replica began after a cancel", late),
            *left_behind(runs, tokens),
        ]
    finally:
        cluster.leave_ray()


def main() -> None:
    """Print a card for people and one JSON line last."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40, help="runs that are cancelled")
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--tokens", type=int, default=8)
    arguments = parser.parse_args()
    if find_spec("ray") is None:
        print(NOTHING)
        tell("replicas", [], nothing=NOTHING)
        return
    figures = measure(arguments.rounds, arguments.runs, arguments.tokens)
    for figure in figures:
        print(f"  {figure}")
    tell("replicas", figures)


if __name__ == "__main__":
    main()
