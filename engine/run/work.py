"""Work in a thread of its own: events come up as it goes on, and whoever reads them may stop it."""

from __future__ import annotations

import logging
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from engine.errors import Cancelled, DecodeError, EngineError, StoppedError
from engine.run.streamer import NOTHING, Ended, QueueStreamer
from engine.run.visitor import VISITOR, Visitor
from engine.trace.events import Failed, Finished, Started
from engine.trace.records import Trace

Send = Callable[[Any], None]
_LOG = logging.getLogger("engine")
_REFERENCE_CHARS = 8
_GOING: dict[threading.Thread, threading.Event] = {}
_BEGINNING = threading.Lock()
"""Held while a thread is noted and started: nobody finds one that cannot be waited for yet."""


class Doing(Protocol):
    """Something that is done."""

    def execute(self) -> None:
        """Do it.

        Raises:
            EngineError: what the user can act on.
        """

    def partial_trace(self) -> Trace | None:
        """Return what there is when it has failed."""


class Job(Doing, Protocol):
    """What is done by ``Work``."""

    def told(self) -> dict[str, Any]:
        """Return what a log may say of it besides: names of ours, counts and seconds."""
        ...


class Task:
    """A job that leaves nothing behind when it fails.

    Args:
        do: called with what takes its events and what is set when it is to stop.
    """

    def __init__(
        self, do: Callable[[Send, threading.Event], None], send: Send, cancelled: threading.Event
    ) -> None:
        self.do, self.send, self.cancelled = do, send, cancelled

    def execute(self) -> None:
        """Do it."""
        self.do(self.send, self.cancelled)

    def partial_trace(self) -> None:
        """Return nothing."""
        return

    def told(self) -> dict[str, Any]:
        """Return nothing: what it is about only its maker knows."""
        return {}


class Work:
    """The events of something that goes on; the last is Failed where it failed.

    Args:
        make: makes the job, given what takes its events and what is set when it is to stop.
        run_id: what it is called; unguessable.
    """

    def __init__(
        self, make: Callable[[Send, threading.Event], Job], run_id: str | None = None
    ) -> None:
        self.run_id = run_id or uuid.uuid4().hex
        self._channel = QueueStreamer()
        self._cancelled = threading.Event()
        # Of the channel, not of this object: a cycle would keep an abandoned run going.
        self._events = iter(self._channel)
        self._thread = threading.Thread(
            target=_work,
            args=(make, self._channel, self._cancelled, self.run_id, VISITOR.get()),
            daemon=True,
        )
        with _BEGINNING:
            _GOING[self._thread] = self._cancelled
            self._thread.start()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._events)

    def batches(self, interval_s: float, idle_s: float | None = None) -> Iterator[list[Any]]:
        """Yield events in batches: the first at once, and what follows Started; then one per interval.

        Args:
            interval_s: seconds between two batches at least.
            idle_s: an empty batch comes when nothing has happened for so long; None: never.
        """
        next_at = 0.0
        while True:
            try:
                event = self._channel.take(idle_s)
            except Ended:
                return
            if event is NOTHING:
                yield []
                continue
            batch = [event]
            if not isinstance(event, Finished | Failed):
                time.sleep(max(0.0, next_at - time.perf_counter()))
                batch += self._channel.waiting()
            yield batch
            # That a run has begun is all known at once: its first step is what is waited for.
            if not all(isinstance(event, Started) for event in batch):
                next_at = time.perf_counter() + interval_s

    def cancel(self) -> None:
        """Stop within one step; what there is still comes, or Failed where there is nothing yet."""
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        """Whether somebody has stopped it."""
        return self._cancelled.is_set()

    def close(self) -> None:
        """Stop within one step and forget the run."""
        self._cancelled.set()
        self._channel.close()
        self._events.close()

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the worker to end; return whether it has."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def __del__(self) -> None:
        self._cancelled.set()
        self._channel.close()


def stop_all(within_s: float) -> None:
    """Stop all work of this process, as it is about to end, and wait so long for it at most."""
    with _BEGINNING:
        going = dict(_GOING)
    for cancelled in going.values():
        cancelled.set()
    until = time.perf_counter() + within_s
    for thread in going:
        thread.join(max(0.0, until - time.perf_counter()))


def _work(
    make: Callable[[Send, threading.Event], Job],
    channel: QueueStreamer,
    cancelled: threading.Event,
    run_id: str,
    visitor: Visitor,
) -> None:
    """The worker thread: whatever happens, the reader gets a last event."""
    VISITOR.set(visitor)
    started = time.perf_counter()
    job = make(channel.put, cancelled)
    try:
        job.execute()
    except Cancelled:
        _LOG.info("run %s left", reference(run_id), extra={"run": reference(run_id)})
        _send_failure(channel, Failed(StoppedError("Stopped before it began.")))
    except BaseException as error:
        _send_failure(channel, Failed(_told(error, run_id), job.partial_trace()))
    finally:
        seconds, named = time.perf_counter() - started, reference(run_id)
        about = {"run": named, "seconds": round(seconds, 3), **job.told()}
        _LOG.info("run %s ended after %.2f s", named, seconds, extra=about)
        channel.end()
        _GOING.pop(threading.current_thread(), None)


def _send_failure(channel: QueueStreamer, event: Failed) -> None:
    try:
        channel.put(event)
    except Cancelled:
        return


def reference(run_id: str) -> str:
    """Return what a log calls a run: whoever reads it must not be able to ask for the run itself."""
    return run_id[:_REFERENCE_CHARS]


def _told(error: BaseException, run_id: str) -> EngineError:
    """Return the error as one sentence; details go to the log under a reference."""
    if isinstance(error, EngineError):
        return error
    named, kind = reference(run_id), type(error).__name__
    about = {"run": named, "error": kind}
    _LOG.error("run %s failed: %s", named, kind, exc_info=_frames_only(error), extra=about)
    return DecodeError(explain(error, named))


def explain(error: BaseException, reference: str) -> str:
    """Return one sentence for an error that is not ours."""
    import torch

    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return "Not enough memory for this run; try fewer sequences, beams or tokens."
    kind = type(error).__name__
    if _raised_by_transformers(error):
        return f"The model's own code in transformers cannot do this ({kind}, see {reference} in the log)."
    return f"Decoding stopped because of an internal error ({kind}, reference {reference})."


def _raised_by_transformers(error: BaseException) -> bool:
    """Return whether an error arose below a model's forward pass, and not in the engine."""
    frames = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    last = next((name for name in reversed(frames) if "/torch/" not in name), "")
    return "/transformers/models/" in last.replace("\\", "/")


def _frames_only(error: BaseException) -> Any:
    """Return exception info whose message is left out: it may quote the prompt."""
    bare = RuntimeError(type(error).__name__)
    return type(bare), bare, error.__traceback__
