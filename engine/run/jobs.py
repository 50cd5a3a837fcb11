"""Runs a job in its own thread; its events can be iterated and the job can be stopped."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from engine.errors import Cancelled, DecodeError, EngineError, StoppedError
from engine.model_code import find_model_code_error, is_out_of_memory, log_without_message
from engine.run.streamer import NOTHING, QueueStreamer, StreamEnded
from engine.run.visitor import VISITOR, Visitor
from engine.trace.events import Failed, Finished, Started
from engine.trace.records import Trace

EventCallback = Callable[[Any], None]
_LOG = logging.getLogger("engine")
_REFERENCE_CHARS = 8
_ACTIVE_JOBS: dict[threading.Thread, threading.Event] = {}
_START_LOCK = threading.Lock()
"""Held while a thread is registered and started, so that ``stop_all_jobs`` finds only joinable ones."""


class Runnable(Protocol):
    """Something that can be executed."""

    def execute(self) -> None:
        """Execute it.

        Raises:
            EngineError: an error that the user can act on.
        """

    def partial_trace(self) -> Trace | None:
        """Return the steps recorded before a failure."""


class Job(Runnable, Protocol):
    """A job that ``JobStream`` executes."""

    def log_fields(self) -> dict[str, Any]:
        """Return extra log fields: known names, counts and seconds, never text."""
        ...


class FunctionJob:
    """A job made of a function, without a partial result.

    Args:
        do: called with the event callback and the cancel event.
        send: receives events.
        cancelled: set to stop it.
    """

    def __init__(
        self,
        do: Callable[[EventCallback, threading.Event], None],
        send: EventCallback,
        cancelled: threading.Event,
    ) -> None:
        self.do, self.send, self.cancelled = do, send, cancelled

    def execute(self) -> None:
        self.do(self.send, self.cancelled)

    def partial_trace(self) -> None:
        return

    def log_fields(self) -> dict[str, Any]:
        """Return no log fields: the function's subject is unknown here."""
        return {}


class JobStream:
    """Iterator over the events of a job in a worker thread; the last is Failed if the job failed.

    Args:
        make: creates the job from an event callback and a cancel event.
        run_id: name of the run; must be unguessable.
    """

    def __init__(
        self, make: Callable[[EventCallback, threading.Event], Job], run_id: str | None = None
    ) -> None:
        self.run_id = run_id or uuid.uuid4().hex
        self._channel = QueueStreamer()
        self._cancelled = threading.Event()
        # Iterates the channel, not this object: a cycle would keep an abandoned run alive.
        self._events = iter(self._channel)
        self._thread = threading.Thread(
            target=_run_job,
            args=(make, self._channel, self._cancelled, self.run_id, VISITOR.get()),
            # A daemon, so that a run never keeps the process alive; stop_all_jobs ends it in order.
            daemon=True,
        )
        with _START_LOCK:
            _ACTIVE_JOBS[self._thread] = self._cancelled
            self._thread.start()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._events)

    def batches(self, interval_s: float, idle_s: float | None = None) -> Iterator[list[Any]]:
        """Yield events in batches, at least ``interval_s`` apart.

        The first batch comes at once, and so does the one after Started.

        Args:
            interval_s: least seconds between two batches.
            idle_s: yield an empty batch after this many silent seconds; None for never.
        """
        next_at = 0.0
        while True:
            try:
                event = self._channel.take(idle_s)
            except StreamEnded:
                return
            if event is NOTHING:
                yield []
                continue
            batch = [event]
            if not isinstance(event, Finished | Failed):
                time.sleep(max(0.0, next_at - time.perf_counter()))
                batch += self._channel.take_available()
            yield batch
            # Started is sent at once, and the first step must not wait a whole interval after it.
            if not all(isinstance(event, Started) for event in batch):
                next_at = time.perf_counter() + interval_s

    def cancel(self) -> None:
        """Stop within one step; what exists is still sent, or Failed if there is nothing yet."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled or closed."""
        return self._cancelled.is_set()

    def close(self) -> None:
        """Stop within one step and discard the run."""
        self._cancelled.set()
        self._channel.close()
        self._events.close()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the worker to end; return whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    # A reader who drops the iterator never closes it; the run would go on to its end.
    def __del__(self) -> None:
        self._cancelled.set()
        self._channel.close()


def stop_all_jobs(within_s: float) -> None:
    """Stop all jobs before this process ends, waiting at most ``within_s`` seconds."""
    with _START_LOCK:
        going = dict(_ACTIVE_JOBS)
    for cancelled in going.values():
        cancelled.set()
    until = time.perf_counter() + within_s
    for thread in going:
        thread.join(max(0.0, until - time.perf_counter()))


def _run_job(
    make: Callable[[EventCallback, threading.Event], Job],
    channel: QueueStreamer,
    cancelled: threading.Event,
    run_id: str,
    visitor: Visitor,
) -> None:
    """Body of the worker thread: the reader always gets a last event."""
    # A new thread begins with an empty context.
    VISITOR.set(visitor)
    started = time.perf_counter()
    job = make(channel.put, cancelled)
    try:
        job.execute()
    except Cancelled:
        _LOG.info("run %s left", log_reference(run_id), extra={"run": log_reference(run_id)})
        _send_failure(channel, Failed(StoppedError("Stopped before it began.")))
    # Not only Exception: whatever ends a run, its reader has to get a last event.
    except BaseException as error:
        _send_failure(channel, Failed(_to_engine_error(error, run_id), _partial_trace(job)))
    finally:
        seconds, named = time.perf_counter() - started, log_reference(run_id)
        about = {"run": named, "seconds": round(seconds, 3), **job.log_fields()}
        _LOG.info("run %s ended after %.2f s", named, seconds, extra=about)
        channel.end()
        _ACTIVE_JOBS.pop(threading.current_thread(), None)


def _partial_trace(job: Job) -> Trace | None:
    """Return the steps recorded before a failure; None also if the tokenizer fails on them."""
    try:
        return job.partial_trace()
    except Exception as error:
        log_without_message(f"no steps were saved: {type(error).__name__}", error, {})
        return None


def _send_failure(channel: QueueStreamer, event: Failed) -> None:
    try:
        channel.put(event)
    except Cancelled:
        return


def log_reference(run_id: str) -> str:
    """Return a run's short name for logs: the full id would let a log reader open the run."""
    return run_id[:_REFERENCE_CHARS]


def _to_engine_error(error: BaseException, run_id: str) -> EngineError:
    """Return the error as one sentence; details go to the log under a reference."""
    if isinstance(error, EngineError):
        return error
    found = find_model_code_error(error)
    if found is not None:
        return found
    if is_out_of_memory(error):
        return DecodeError("Not enough memory for this run; try fewer sequences, beams or tokens.")
    named, kind = log_reference(run_id), type(error).__name__
    log_without_message(f"run {named} failed: {kind}", error, {"run": named, "error": kind})
    return DecodeError(
        "Decoding stopped because of an internal error ({kind}, reference {reference}).",
        kind=kind,
        reference=named,
    )
