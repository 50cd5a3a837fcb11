"""Counters and histograms of this process's runs, for operators.

All numbers come from traces; nothing is measured twice. No prompt, text or visitor is stored: the
only names are strategies, outcomes and error kinds.
"""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from engine.errors import Cancelled, EngineError, StoppedError
from engine.models import loading
from engine.run.jobs import EventCallback, Runnable
from engine.run.scheduler import RUN_QUEUE
from engine.strategies import STRATEGIES
from engine.trace.events import Event, Finished, Started
from engine.trace.records import Trace

OTHER_STRATEGY = "other"
"""Label for an unknown strategy: a request may contain any string, and labels must stay few."""
INTERNAL_ERROR = "internal"
"""Error kind of an exception that is not an EngineError."""
FINISHED, CANCELLED, FAILED = OUTCOMES = ("finished", "cancelled", "failed")
_MAX_REPORT_AGE_S = 60.0
"""Seconds after which a silent replica's numbers are dropped."""


@dataclass
class Histogram:
    """Histogram of durations in seconds.

    Attributes:
        counts: values per bucket, not cumulative; the last bucket holds values beyond the largest
            bound.
        total: sum of all values, in seconds.
    """

    BOUNDS: ClassVar = (
        0.01,
        0.025,
        0.05,
        0.1,
        0.25,
        0.5,
        1.0,
        2.5,
        5.0,
        10.0,
        30.0,
        60.0,
        120.0,
        300.0,
    )
    counts: list[int] = field(default_factory=lambda: [0] * (len(Histogram.BOUNDS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self.BOUNDS, seconds)] += 1
        self.total += seconds

    def values(self) -> dict[str, Any]:
        """Return bounds, counts and total as plain values."""
        return {"bounds": list(self.BOUNDS), "counts": list(self.counts), "total": self.total}


class Counts:
    """Counters of all runs since this process started; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._begun: Counter[str] = Counter()
        self._ended: dict[str, Counter[str]] = {}
        self._failures: Counter[str] = Counter()
        self._tokens: Counter[str] = Counter()
        self._decoding_s: dict[str, float] = {}
        self._waiting = self._going = 0
        self._queue_s, self._load_s, self._first_token_s = Histogram(), Histogram(), Histogram()

    def begin(self, strategy: str) -> None:
        """Count a requested run, which now waits for its turn."""
        with self._lock:
            self._begun[strategy] += 1
            self._waiting += 1

    def start(self) -> None:
        """Count a run whose turn has come."""
        with self._lock:
            self._waiting -= 1
            self._going += 1

    def end(self, strategy: str, outcome: str, code: str | None, *, started: bool) -> None:
        """Count the end of a run.

        Args:
            strategy: the name passed to ``begin``.
            outcome: one of OUTCOMES.
            code: error kind of a failed run, else None.
            started: whether its turn had come.
        """
        with self._lock:
            self._going -= started
            self._waiting -= not started
            self._ended.setdefault(strategy, Counter())[outcome] += 1
            if code is not None:
                self._failures[code] += 1

    def add(self, strategy: str, trace: Trace) -> None:
        """Add tokens and durations from a trace, complete or partial."""
        timing = trace.timing
        with self._lock:
            self._tokens[strategy] += _count_tokens(trace)
            self._decoding_s[strategy] = self._decoding_s.get(strategy, 0.0) + timing.total_s
            self._queue_s.add(timing.queue_s)
            self._load_s.add(timing.load_s)
            if timing.first_token_s is not None:
                self._first_token_s.add(timing.first_token_s)

    def values(self) -> dict[str, Any]:
        """Return all counters as plain values; names that end in ``_s`` are seconds."""
        with self._lock:
            return {
                "begun": dict(self._begun),
                "ended": {name: dict(outcomes) for name, outcomes in self._ended.items()},
                "failures": dict(self._failures),
                "tokens": dict(self._tokens),
                "decoding_s": dict(self._decoding_s),
                "waiting": self._waiting,
                "going": self._going,
                "queue_s": self._queue_s.values(),
                "load_s": self._load_s.values(),
                "first_token_s": self._first_token_s.values(),
            }


COUNTS = Counts()


class _EventCounter:
    """Forwards the events of a run and notes what is counted.

    A separate object from the run, which sends to it: a reference cycle would keep the run's record
    alive until the garbage collector runs.
    """

    def __init__(self, strategy: str, send: EventCallback, counts: Counts) -> None:
        self.strategy, self.send, self.counts = strategy, send, counts
        self.started = False
        self.outcome, self.code = FAILED, INTERNAL_ERROR
        self.trace: Trace | None = None

    def count_and_send(self, event: Event) -> None:
        if isinstance(event, Started) and not self.started:
            self.started = True
            self.counts.start()
        elif isinstance(event, Finished):
            stopped = any(output.finish_reason == "cancelled" for output in event.trace.outputs)
            self.outcome = CANCELLED if stopped else FINISHED
            self.add_trace(event.trace)
        self.send(event)

    def add_trace(self, trace: Trace | None) -> None:
        # Counted once: execute() and partial_trace() may both deliver it.
        if trace is not None and self.trace is None:
            self.trace = trace
            self.counts.add(self.strategy, trace)


class CountedRun:
    """A job that counts its run; exceptions and events pass through unchanged.

    Args:
        strategy: name from the request.
        make: creates the run, see ``JobStream``.
        send: receives the run's events.
        cancelled: set to stop the run.
        counts: receives the numbers.
    """

    def __init__(
        self,
        strategy: str,
        make: Callable[[EventCallback, threading.Event], Runnable],
        send: EventCallback,
        cancelled: threading.Event,
        counts: Counts = COUNTS,
    ) -> None:
        self._counter = _EventCounter(
            strategy if strategy in STRATEGIES else OTHER_STRATEGY, send, counts
        )
        self._run = make(self._counter.count_and_send, cancelled)

    def execute(self) -> None:
        """Execute the run and count its outcome.

        Raises:
            EngineError: an error that the user can act on.
            Cancelled: the run was stopped, or its reader has left.
        """
        counter = self._counter
        counter.counts.begin(counter.strategy)
        try:
            self._run.execute()
        except (Cancelled, StoppedError):
            if counter.trace is None:
                counter.outcome = CANCELLED
                counter.add_trace(self._run.partial_trace())
            raise
        except BaseException as error:
            counter.code = error.code if isinstance(error, EngineError) else INTERNAL_ERROR
            raise
        finally:
            failed = counter.code if counter.outcome == FAILED else None
            counter.counts.end(counter.strategy, counter.outcome, failed, started=counter.started)

    def partial_trace(self) -> Trace | None:
        """Return the steps recorded before a failure, None if there are none."""
        trace = self._run.partial_trace()
        self._counter.add_trace(trace)
        return trace

    def log_fields(self) -> dict[str, Any]:
        """Return log fields: known names, counts and seconds, never text."""
        counter = self._counter
        about: dict[str, Any] = {"strategy": counter.strategy, "outcome": counter.outcome}
        if counter.outcome == FAILED:
            about["code"] = counter.code
        if counter.trace is not None:
            timing = counter.trace.timing
            about["tokens"] = _count_tokens(counter.trace)
            about |= {"queue_s": timing.queue_s, "load_s": timing.load_s}
            about |= {"first_token_s": timing.first_token_s, "total_s": timing.total_s}
        return about


def _count_tokens(trace: Trace) -> int:
    return sum(len(output.token_ids) for output in trace.outputs)


def snapshot() -> dict[str, Any]:
    """Return this process's numbers as plain values, as a replica reports them.

    Adds to ``Counts.values``: ``line`` (waiting and computing tickets of all work), ``models`` (in
    memory), ``model_bytes`` and ``memory_bytes`` (of the whole process, None if the system does not
    report it).
    """
    waiting, computing = RUN_QUEUE.count_tickets()
    models, model_bytes = loading.loaded_count_and_bytes()
    return {
        **COUNTS.values(),
        "line": {"waiting": waiting, "computing": computing},
        "models": models,
        "model_bytes": model_bytes,
        "memory_bytes": memory_bytes(),
    }


def memory_bytes() -> int | None:
    """Return this process's resident memory in bytes, None if the system does not report it."""
    try:
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


class ReplicaReports:
    """Latest numbers of other replicas; a replica drops out after 60 silent seconds.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._reports: dict[str, tuple[float, Mapping[str, Any]]] = {}

    def add(self, replica: str, numbers: Mapping[str, object]) -> None:
        """Store the numbers of a replica.

        Args:
            replica: unique name of the replica's process.
            numbers: its ``snapshot``.
        """
        with self._lock:
            # A monotonic clock: a corrected system time must not drop every replica.
            self._reports[replica] = self._clock(), numbers

    def recent(self) -> dict[str, Mapping[str, Any]]:
        """Return replica name -> its latest numbers, for replicas that reported recently."""
        oldest = self._clock() - _MAX_REPORT_AGE_S
        with self._lock:
            self._reports = {
                name: report for name, report in self._reports.items() if report[0] >= oldest
            }
            return {name: numbers for name, (_, numbers) in sorted(self._reports.items())}


REPLICA_REPORTS = ReplicaReports()
