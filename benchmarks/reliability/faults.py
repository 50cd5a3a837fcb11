"""Faults at drawn places of drawn runs: each is told in a sentence and leaves nothing, and the next run is right."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from benchmarks.about import Goal
from benchmarks.reliability.cards import Measured, Part
from benchmarks.reliability.requests import IN_PROCESS, Alone, short_request
from engine import DecodeRequest
from engine.declare.params import params_of
from engine.errors import DecodeError
from engine.models import loading
from engine.run import jobs
from engine.run.scheduler import RUN_QUEUE
from engine.strategies import STRATEGIES
from tests.helpers.faults import PLACES, exported, failing, messages_of
from tests.helpers.patience import PATIENCE_S

ERRORS = (
    RuntimeError,
    ValueError,
    KeyError,
    OSError,
    MemoryError,
    AssertionError,
    DecodeError,
    SystemExit,
)
_TOKENS = 6
_PENALTY = 1.1
"""So that every run has a processor."""
_UNTOLD = ("Traceback", "\n")
_POLL_S = 0.02


@dataclass
class _Found:
    """What the faults came to."""

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[str] = field(default_factory=list)

    def add(self, what: str, about: str) -> None:
        """Count something that went wrong."""
        self.counts[what] += 1
        self.examples.append(f"{what}: {about}")


def left_behind(folder: Path, threads: set[threading.Thread]) -> list[str]:
    """Return what is not as it was before a run, once it has had the time to end.

    Args:
        folder: where temporary files are made.
        threads: those that were there before.
    """
    until = time.monotonic() + PATIENCE_S
    while (found := _leaks(folder, threads)) and time.monotonic() < until:
        time.sleep(_POLL_S)
    return found


def _leaks(folder: Path, threads: set[threading.Thread]) -> list[str]:
    fresh = [thread.name for thread in threading.enumerate() if thread not in threads]
    entries = list(loading._CACHE.values())
    held = {
        "places in the line": len(RUN_QUEUE._tickets) + len(RUN_QUEUE._inside),
        "work under way": len(jobs._ACTIVE_JOBS),
        "threads": len(fresh),
        "temporary files": len(list(folder.iterdir())),
        "models held": sum(entry.loaded.lock.locked() for entry in entries),
        "models pinned": sum(entry.pins > 0 for entry in entries),
        "load under way": int(loading._LOAD_LOCK.locked()),
    }
    return [f"{count} {what}" for what, count in held.items() if count]


_BY_TIME, _SURE = ("journal", "send"), 3


class _Tries:
    """Tries faults one after the other; knows how often each place is come to in each run."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance, self.folder = random.Random(seed), folder
        self.alone, self.found = Alone(), _Found()
        self._calls: dict[tuple[str, str], int] = {}
        self._traces: dict[str, dict[str, Any]] = {}

    def once(self, place: str) -> None:
        """Let one call of a kind fail in a drawn run, and look what there is afterwards."""
        strategy = self.chance.choice([name for name in IN_PROCESS if self._count(place, name)])
        request, nth = self._request(strategy), self.chance.randint(1, self._count(place, strategy))
        kind = self.chance.choice(ERRORS)
        about = f"{kind.__name__} at call {nth} of {place} in {strategy}"
        threads = set(threading.enumerate())
        with failing(place, nth, kind("planted")) as calls:
            self._judge(place, request, about)
        if not calls.failed:
            self.found.add("not_reached", about)
        for leak in left_behind(self.folder, threads):
            self.found.add("leaked", f"{leak} after {about}")
        self._next(about)

    def _judge(self, place: str, request: DecodeRequest, about: str) -> None:
        try:
            ending = self._ending(place, request)
        except BaseException as error:
            # Whatever comes through here would have left a page without a word.
            self.found.add("uncaught", f"{type(error).__name__}, {about}")
            return
        said = ending.get("error", "")
        if ending.get("kind") == "fail" or place == "export":
            self.found.counts["told"] += 1
            if not said or any(part in said for part in _UNTOLD):
                self.found.add("without_a_sentence", f"{said!r}, {about}")
        elif ending.get("kind") != "finish":
            self.found.add("without_an_end", about)

    def _ending(self, place: str, request: DecodeRequest) -> dict[str, Any]:
        """Return the last that a page is told."""
        if place == "export":
            return exported(self._trace(request.strategy))
        if place == "load":
            loading._CACHE.clear()
        told = messages_of(request)
        return told[-1] if told else {}

    def _next(self, about: str) -> None:
        """Run the next request; what went before must not be seen in it."""
        request = self._request(self.chance.choice(IN_PROCESS))
        expected = self.alone.of(request)
        ending = messages_of(request)[-1]
        outputs = ending.get("rest", {}).get("outputs", [])
        if tuple(tuple(output["token_ids"]) for output in outputs) != expected:
            self.found.add("next_run_wrong", f"{request.strategy} after {about}")

    def _count(self, place: str, strategy: str) -> int:
        """Return how often a place is come to in a whole run."""
        if (place, strategy) not in self._calls:
            request = self._request(strategy)
            if place == "export":
                self._trace(strategy)
            with failing(place) as calls:
                self._ending(place, request)
            # Messages go together as time has it, so how many there are is not known beforehand.
            most = _SURE if place in _BY_TIME else calls.count
            self._calls[place, strategy] = min(calls.count, most)
        return self._calls[place, strategy]

    def _trace(self, strategy: str) -> dict[str, Any]:
        """Return a run of a strategy as a page sends it."""
        if strategy not in self._traces:
            start, *_, end = messages_of(self._request(strategy))
            header = {n: v for n, v in start["header"].items() if n != "fields"}
            self._traces[strategy] = {**header, "steps": [], **end["rest"]}
        return self._traces[strategy]

    def _request(self, strategy: str) -> DecodeRequest:
        has_filters = "repetition_penalty" in params_of(STRATEGIES[strategy].config)
        penalty = {"repetition_penalty": _PENALTY} if has_filters else {}
        return short_request(strategy, 0, _TOKENS, **penalty)


@contextmanager
def _own_temporary_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder, patch.object(tempfile, "tempdir", folder):
        yield Path(folder)


def measure(n: int, seed: int) -> Measured:
    """Let ``n`` calls fail, all kinds in turn."""
    with _own_temporary_folder() as folder:
        tries, kinds = _Tries(seed, folder), list(PLACES)
        for number in range(n):
            tries.once(kinds[number % len(kinds)])
    counts = tries.found.counts
    bad = ("leaked", "next_run_wrong", "uncaught", "without_a_sentence", "without_an_end")
    figures = {name: counts[name] for name in (*bad, "not_reached", "told")}
    return Measured(n, {**figures, "kinds": len(kinds)}, tuple(tries.found.examples))


PART = Part(
    name="faults",
    title="Injected faults (n calls that fail: load, tokenise, forward, processor, record, send, export, journal)",
    goals={
        "leaked": Goal(0),
        "next_run_wrong": Goal(0),
        "uncaught": Goal(0),
        "without_a_sentence": Goal(0),
        "without_an_end": Goal(0),
        "not_reached": Goal(0),
    },
    measure=measure,
    short=120,
    nightly=1000,
    short_s=1800.0,
)
