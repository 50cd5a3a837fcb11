"""What runs of this process came to, as plain numbers for whoever looks after the machine.

Every number is one that a trace has; nothing here is timed or counted a second time. Nothing of a prompt, a text
or a visitor is kept: names are those of strategies, outcomes and kinds of errors alone.
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
from engine.run.permits import LINE
from engine.run.work import Doing, Send
from engine.strategies import STRATEGIES
from engine.trace.events import Finished, Started
from engine.trace.records import Trace

OTHER = "other"
"""What a strategy is called that is none of ours: a request may name anything."""
INTERNAL = "internal"
"""The kind of an error that is not the engine's own."""
FINISHED, CANCELLED, FAILED = OUTCOMES = ("finished", "cancelled", "failed")
_REPORT_S = 60.0
"""How long a replica's numbers are shown that sends no new ones."""


@dataclass
class Histogram:
    """How often which seconds were seen.

    Attributes:
        counts: of values up to each bound, and in the last place of those beyond; each value is in one place.
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
        """Count a value."""
        self.counts[bisect_left(self.BOUNDS, seconds)] += 1
        self.total += seconds

    def values(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {"bounds": list(self.BOUNDS), "counts": list(self.counts), "total": self.total}


class Counts:
    """The numbers of all runs since this process began."""

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
        """Count a run that was asked for; it waits until it has its turn."""
        with self._lock:
            self._begun[strategy] += 1
            self._waiting += 1

    def start(self) -> None:
        """Count a run that has its turn."""
        with self._lock:
            self._waiting -= 1
            self._going += 1

    def end(self, strategy: str, outcome: str, code: str | None, *, started: bool) -> None:
        """Count the end of a run.

        Args:
            strategy: as it was begun with.
            outcome: one of OUTCOMES.
            code: the kind of the error where it failed.
            started: whether it had its turn.
        """
        with self._lock:
            self._going -= started
            self._waiting -= not started
            self._ended.setdefault(strategy, Counter())[outcome] += 1
            if code is not None:
                self._failures[code] += 1

    def add(self, strategy: str, trace: Trace) -> None:
        """Count what the trace of a run says, however it ended."""
        timing = trace.timing
        with self._lock:
            self._tokens[strategy] += _tokens(trace)
            self._decoding_s[strategy] = self._decoding_s.get(strategy, 0.0) + timing.total_s
            self._queue_s.add(timing.queue_s)
            self._load_s.add(timing.load_s)
            if timing.first_token_s is not None:
                self._first_token_s.add(timing.first_token_s)

    def values(self) -> dict[str, Any]:
        """Return all of it as plain values, seconds where a name ends in ``_s``."""
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


class _Seen:
    """Takes the events of a run on their way, and keeps what is counted of them.

    Apart from the run, which sends to it: each holding the other would keep a run's record until somebody tidies up.
    """

    def __init__(self, strategy: str, send: Send, counts: Counts) -> None:
        self.strategy, self.send, self.counts = strategy, send, counts
        self.started = False
        self.outcome, self.code = FAILED, INTERNAL
        self.trace: Trace | None = None

    def pass_on(self, event: Any) -> None:
        if isinstance(event, Started) and not self.started:
            self.started = True
            self.counts.start()
        elif isinstance(event, Finished):
            stopped = any(output.finish_reason == "cancelled" for output in event.trace.outputs)
            self.outcome = CANCELLED if stopped else FINISHED
            self.take(event.trace)
        self.send(event)

    def take(self, trace: Trace | None) -> None:
        if trace is not None and self.trace is None:
            self.trace = trace
            self.counts.add(self.strategy, trace)


class Counted:
    """A run as a job that is counted; what it raises and sends stays as it is.

    Args:
        strategy: as the request names it.
        make: makes the run, as of ``Work``.
        send: takes its events.
        cancelled: set when it is to stop.
        counts: takes its numbers.
    """

    def __init__(
        self,
        strategy: str,
        make: Callable[[Send, threading.Event], Doing],
        send: Send,
        cancelled: threading.Event,
        counts: Counts = COUNTS,
    ) -> None:
        self._seen = _Seen(strategy if strategy in STRATEGIES else OTHER, send, counts)
        self._run = make(self._seen.pass_on, cancelled)

    def execute(self) -> None:
        """Do it.

        Raises:
            EngineError: what the user can act on.
            Cancelled: it was stopped, or nobody listens any more.
        """
        seen = self._seen
        seen.counts.begin(seen.strategy)
        try:
            self._run.execute()
        except (Cancelled, StoppedError):
            if seen.trace is None:
                seen.outcome = CANCELLED
                seen.take(self._run.partial_trace())
            raise
        except BaseException as error:
            seen.code = error.code if isinstance(error, EngineError) else INTERNAL
            raise
        finally:
            failed = seen.code if seen.outcome == FAILED else None
            seen.counts.end(seen.strategy, seen.outcome, failed, started=seen.started)

    def partial_trace(self) -> Trace | None:
        """Return what there is when it has failed."""
        trace = self._run.partial_trace()
        self._seen.take(trace)
        return trace

    def told(self) -> dict[str, Any]:
        """Return what a log may say of it: names of ours, counts and seconds."""
        seen = self._seen
        about: dict[str, Any] = {"strategy": seen.strategy, "outcome": seen.outcome}
        if seen.outcome == FAILED:
            about["code"] = seen.code
        if seen.trace is not None:
            timing = seen.trace.timing
            about["tokens"] = _tokens(seen.trace)
            about |= {"queue_s": timing.queue_s, "load_s": timing.load_s}
            about |= {"first_token_s": timing.first_token_s, "total_s": timing.total_s}
        return about


def _tokens(trace: Trace) -> int:
    return sum(len(output.token_ids) for output in trace.outputs)


def snapshot() -> dict[str, Any]:
    """Return the numbers of this process as plain values, as a replica reports them.

    Besides those of ``Counts``: ``line`` (places that wait and compute, of runs and of everything else),
    ``models`` (in memory), ``model_bytes`` (what they take) and ``memory_bytes`` (the whole process, None where
    the system does not say).
    """
    waiting, computing = LINE.busy()
    models, model_bytes = loading.held()
    return {
        **COUNTS.values(),
        "line": {"waiting": waiting, "computing": computing},
        "models": models,
        "model_bytes": model_bytes,
        "memory_bytes": memory_bytes(),
    }


def memory_bytes() -> int | None:
    """Return the memory that this process has, None where the system does not say."""
    try:
        with open("/proc/self/statm") as said:
            pages = int(said.read().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


class Reports:
    """What replicas elsewhere have said of themselves; those of which nothing is heard any more are left out.

    Args:
        clock: returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._said: dict[str, tuple[float, Mapping[str, Any]]] = {}

    def add(self, replica: str, numbers: Mapping[str, Any]) -> None:
        """Take the numbers of a replica.

        Args:
            replica: its name, another one for every process.
            numbers: as ``snapshot`` returns them there.
        """
        with self._lock:
            self._said[replica] = self._clock(), numbers

    def recent(self) -> dict[str, Mapping[str, Any]]:
        """Return the last numbers of every replica that was heard of lately, by its name."""
        oldest = self._clock() - _REPORT_S
        with self._lock:
            self._said = {name: said for name, said in self._said.items() if said[0] >= oldest}
            return {name: numbers for name, (_, numbers) in sorted(self._said.items())}


REPORTS = Reports()
