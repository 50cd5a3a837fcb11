"""decode(request): a worker thread runs generate() with our loop; events come up as it decides."""

from __future__ import annotations

import logging
import threading
import time
import traceback
import uuid
from collections.abc import Iterator
from typing import Any

from engine.errors import Cancelled, DecodeError, EngineError
from engine.run.request import DecodeRequest
from engine.run.run import Run
from engine.run.streamer import QueueStreamer
from engine.trace.events import Event, Failed, Finished

_LOG = logging.getLogger("engine")


def decode(request: DecodeRequest) -> DecodeRun:
    """Start decoding; iterate the result for events, the last is Finished or Failed.

    Args:
        request: what to decode. Nothing is raised for a bad request: it arrives as Failed.

    Returns:
        An iterator of events with ``close()`` (stop and forget) and ``cancel()`` (stop and get
        what there is as Finished, with finish_reason cancelled).
    """
    return DecodeRun(request)


class DecodeRun:
    """The events of one run; see ``decode``."""

    def __init__(self, request: DecodeRequest) -> None:
        self.run_id = uuid.uuid4().hex
        self._channel = QueueStreamer()
        self._cancelled = threading.Event()
        # Of the channel, not of this object: a cycle would keep an abandoned run going.
        self._events = iter(self._channel)
        self._thread = threading.Thread(
            target=_work, args=(request, self._channel, self._cancelled, self.run_id), daemon=True
        )
        self._thread.start()

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def batches(self, interval_s: float) -> Iterator[list[Event]]:
        """Yield events in batches: the first at once, then at most one batch per interval."""
        next_at = 0.0
        for event in self:
            batch = [event]
            if not isinstance(event, Finished | Failed):
                time.sleep(max(0.0, next_at - time.perf_counter()))
                batch += self._channel.waiting()
            yield batch
            next_at = time.perf_counter() + interval_s

    def cancel(self) -> None:
        """Stop the loop within one step; Finished still comes, with what was recorded."""
        self._cancelled.set()

    def close(self) -> None:
        """Stop the loop within one step and forget the run."""
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


def _work(
    request: DecodeRequest, channel: QueueStreamer, cancelled: threading.Event, run_id: str
) -> None:
    """The worker thread: whatever happens, the reader gets a last event."""
    started = time.perf_counter()
    run = Run(request, channel.put, cancelled)
    try:
        run.execute()
    except Cancelled:
        _LOG.info("run %s left by its reader", run_id)
    except BaseException as error:
        _send_failure(channel, Failed(_told(error, run_id), run.partial_trace()))
    finally:
        _LOG.info("run %s ended after %.2f s", run_id, time.perf_counter() - started)
        channel.end()


def _send_failure(channel: QueueStreamer, event: Failed) -> None:
    try:
        channel.put(event)
    except Cancelled:
        return


def _told(error: BaseException, run_id: str) -> EngineError:
    """Return the error as one sentence; details go to the log under a reference."""
    if isinstance(error, EngineError):
        return error
    reference = run_id[:8]
    _LOG.error("run %s failed: %s", reference, type(error).__name__, exc_info=_frames_only(error))
    return DecodeError(explain(error, reference))


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
