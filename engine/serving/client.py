"""A run on a replica with the events of a local run; a lost replica causes only a pause."""

from __future__ import annotations

import math
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

from engine.errors import BusyError, Cancelled, DecodeError
from engine.run.jobs import EventCallback, JobStream
from engine.run.request import DecodeRequest
from engine.run.run_counters import CountedRun
from engine.run.scheduler import compute_event_interval
from engine.run.visitor import VISITOR
from engine.serving.delivery_log import DeliveryLog, RunMismatch
from engine.serving.fields import routing_model, to_fields
from engine.serving.protocol import EventStream, OpenStream, ReplicaLost
from engine.settings import SETTINGS
from engine.trace.events import Event, Failed, Finished, RunReplaced, StepRecorded, Waiting
from engine.trace.records import Trace

_POLL_S = 0.25
"""Interval of checks for a stop while the replica is silent."""
_SILENCE_TIMEOUT_S = 30.0
"""A replica silent for so long counts as lost, even if its machine is up."""
_PROBE_AFTER_S = 5.0
"""After so long without an answer, check whether any replica exists."""
_RETRY_PAUSE_S, _MAX_DOUBLINGS = 0.1, 4
"""Pause before a new request, and how many times it doubles."""
_MAX_LOSSES = 3
_REPORT_INTERVAL_S = 1.0


class RemoteRun(JobStream):
    """The events of one run on a replica, with the interface of ``DecodeRun``.

    If the replica is lost, the run is repeated on another one, and events already delivered are
    dropped. If the repetition differs, ``RunReplaced`` ends the run and begins another; ``run_id``
    is then that of the new run.

    Args:
        request: what to decode.
        ask: opens a stream on a replica; None uses the replicas of this process's engine.
    """

    def __init__(self, request: DecodeRequest, ask: OpenStream | None = None) -> None:
        self._reach = _StreamSlot()
        run = partial(_RemoteJob, request, ask or _open_default_stream, self._reach)
        super().__init__(partial(CountedRun, request.strategy, run))

    def __next__(self) -> Any:
        event = super().__next__()
        self._update_run_id([event])
        return event

    def batches(self, interval_s: float, idle_s: float | None = None) -> Iterator[list[Any]]:
        """Yield events in batches; see ``JobStream.batches``."""
        for batch in super().batches(interval_s, idle_s):
            self._update_run_id(batch)
            yield batch

    def cancel(self) -> None:
        """Stop within one step; remaining events arrive, or Failed if there are none."""
        super().cancel()
        self._reach.stop()

    def close(self) -> None:
        """Stop within one step and drop the run."""
        self._reach.left = True
        super().close()

    def __del__(self) -> None:
        self._reach.left = True
        super().__del__()

    def _update_run_id(self, batch: list[Any]) -> None:
        for event in batch:
            if isinstance(event, RunReplaced):
                self.run_id = event.run_id


class _StreamSlot:
    """Shares the current stream with the run's reader; the worker knows no more of the reader."""

    def __init__(self) -> None:
        self.left = False
        self.stream: EventStream | None = None

    def stop(self) -> None:
        """Ask the replica to stop, if there is one."""
        stream = self.stream
        if stream is not None:
            stream.stop()


class _StoppedUnanswered(Exception):
    """The run was stopped, and no replica will send its end."""


class _RemoteJob:
    """Requests one run from replicas until it has ended."""

    def __init__(
        self,
        request: DecodeRequest,
        ask: OpenStream,
        reach: _StreamSlot,
        send: EventCallback,
        cancelled: threading.Event,
    ) -> None:
        self.request, self.ask, self.reach = request, ask, reach
        self.send, self.cancelled = send, cancelled
        self.repeat = DeliveryLog()
        self.heard = self.further = time.monotonic()
        self.losses = 0

    def execute(self) -> None:
        """Request the run, forward its events, and request it again if the replica is lost.

        Raises:
            EngineError: an error that the user can act on.
            Cancelled: the run was stopped before it began, or its reader has left.
        """
        asked = to_fields(self.request), VISITOR.get(), routing_model(self.request)
        try:
            with PendingRun(self.send) as pending:
                while not self._try_replica(asked, pending):
                    self.repeat.restart()
                    self.cancelled.wait(_RETRY_PAUSE_S * 2 ** min(self.losses, _MAX_DOUBLINGS))
        except _StoppedUnanswered:
            trace = self.repeat.delivered_trace("cancelled")
            if trace is None:
                raise Cancelled from None
            self.send(Finished(trace))

    def partial_trace(self) -> Trace | None:
        """Return what was delivered before a failure, None if nothing was."""
        return self.repeat.delivered_trace("error")

    def _try_replica(self, asked: tuple[Any, ...], pending: PendingRun) -> bool:
        """Request the run once; return whether it came to its end."""
        try:
            while (stream := self.ask(*asked)) is None:
                self._report_waiting(pending)
                time.sleep(_POLL_S)
            with self._attach_stream(stream):
                self._forward_events(stream, pending)
            return True
        except ReplicaLost:
            self._count_loss()
        except BusyError:
            # A run that has begun keeps trying.
            if not self.repeat.has_started:
                raise
            self.heard = time.monotonic()
        self._report_waiting(pending)
        return False

    @contextmanager
    def _attach_stream(self, stream: EventStream) -> Iterator[None]:
        self.reach.stream = stream
        try:
            yield
        finally:
            self.reach.stream = None
            stream.close()

    def _forward_events(self, stream: EventStream, pending: PendingRun) -> None:
        """Forward events until the run has ended.

        Raises:
            Lost: the replica is lost.
        """
        answered = began = 0.0
        told = False
        while True:
            batch = stream.next_batch(_POLL_S)
            now = time.monotonic()
            if self.cancelled.is_set() and not told:
                self._stop_replica(stream, bool(answered or batch is not None))
                told = True
            if batch is None and not answered:
                self._report_waiting(pending, stream)
            elif batch is None:
                if now - answered > _SILENCE_TIMEOUT_S:
                    raise ReplicaLost("silent")
            else:
                pending.remove()
                self.heard = answered = now
                if self._send_new(batch):
                    return
                began = began or (now if self.repeat.has_started else 0.0)
            if began and now - began > _max_run_s():
                raise DecodeError(
                    "The replica did not end the run within {seconds} s; it was given up.",
                    seconds=f"{_max_run_s():.0f}",
                )

    def _stop_replica(self, stream: EventStream, answered: bool) -> None:
        if self.reach.left:
            raise Cancelled
        if not answered or self.repeat.is_catching_up:
            # While the repetition is behind, everything available was delivered already.
            raise _StoppedUnanswered
        stream.stop()

    def _send_new(self, batch: list[Event]) -> bool:
        """Send events not delivered before; return whether the last one ends the run."""
        for event in batch:
            if isinstance(event, Failed) and isinstance(event.error, BusyError):
                raise event.error
        try:
            events = self.repeat.take_new(batch)
        except RunMismatch as differs:
            self.repeat = DeliveryLog()
            anew = RunReplaced(uuid.uuid4().hex, differs.step)
            events = [anew, *self.repeat.take_new(differs.events)]
        for event in events:
            self.send(event)
            if isinstance(event, StepRecorded):
                self.further, self.losses = time.monotonic(), 0
        return bool(events) and isinstance(events[-1], Finished | Failed)

    def _count_loss(self) -> None:
        """Fail a run whose replicas die without progress: the run itself may kill them."""
        self.losses += 1
        if (
            self.losses >= _MAX_LOSSES
            and time.monotonic() - self.further > SETTINGS.max_unanswered_s
            and self.further <= self.heard
        ):
            raise DecodeError(
                "The replica of this run was lost {times} times without getting further; it "
                "was given up.",
                times=self.losses,
            )

    def _report_waiting(self, pending: PendingRun, stream: EventStream | None = None) -> None:
        """Report that the run waits for a replica, while one may still answer.

        Raises:
            DecodeError: no replica has answered for too long.
        """
        if self.reach.left:
            raise Cancelled
        if self.cancelled.is_set():
            raise _StoppedUnanswered
        pending.report_position()
        silent_s = time.monotonic() - self.heard
        if silent_s > _PROBE_AFTER_S and stream is not None and stream.has_replica():
            self.heard = time.monotonic()
        elif silent_s > SETTINGS.max_unanswered_s:
            raise DecodeError(
                "No replica has answered for {seconds} s. Try again later.",
                seconds=f"{SETTINGS.max_unanswered_s:.0f}",
            )


class PendingRun:
    """A run without an answer from a replica, in a queue with the others of this process.

    Args:
        send: receives its Waiting events.
    """

    _all: ClassVar[list[PendingRun]] = []
    _lock = threading.Lock()

    def __init__(self, send: EventCallback) -> None:
        self._send = send
        self._told, self._told_at = 0, -math.inf

    def __enter__(self) -> PendingRun:
        with self._lock:
            self._all.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Leave the queue."""
        with self._lock:
            if self in self._all:
                self._all.remove(self)

    def report_position(self) -> None:
        """Report the queue position when it changes, or once per second."""
        with self._lock:
            if self not in self._all:
                # Its replica was lost, so the run waits again.
                self._all.append(self)
            position, pause_s = self._all.index(self) + 1, compute_event_interval(len(self._all))
        # The pause grows with the queue: many messages a second would slow the server.
        since = time.monotonic() - self._told_at
        if since >= max(pause_s, 0.0 if position != self._told else _REPORT_INTERVAL_S):
            self._told, self._told_at = position, time.monotonic()
            self._send(Waiting(position, None))


def _max_run_s() -> float:
    """Return the seconds after which a run is given up if its replica does not end it."""
    return SETTINGS.max_runtime_s + SETTINGS.max_unanswered_s


def _open_default_stream(*asked: Any) -> EventStream | None:
    """Open a stream on the replicas that PLAYGROUND_ENGINE names."""
    from engine.serving.cluster import open_stream

    return open_stream(*asked)
