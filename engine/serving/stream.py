"""The stream of one run's events from a replica, over Ray Serve."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from functools import lru_cache
from typing import Any

from ray import exceptions as ray_errors  # pyright: ignore[reportMissingImports]
from ray.serve.exceptions import BackPressureError, RayServeException  # pyright: ignore[reportMissingImports]

from engine.errors import EngineError
from engine.run.scheduler import queue_full_error
from engine.run.visitor import Visitor
from engine.serving.protocol import ReplicaLost
from engine.trace.events import Event

_END = object()
_ANSWER_TIMEOUT_S = 5.0
_STOP_RETRY_PAUSES_S = (0.02, 0.05, 0.1, 0.2, *([0.5] * 120))
"""Pauses between attempts to stop a run that has not reached its replica yet."""
_LOST_ERRORS = (RayServeException, asyncio.CancelledError, OSError)
"""Errors of a lost or stopping replica, besides Ray's own."""


class ReplicaStream:
    """The batches of one run from the replica that Serve's router chose.

    Args:
        handle: handle of the deployment.
        fields: fields of the request.
        visitor: the sender.
        model: model for routing; "" for none.
        call: name of the run among those of all replicas.
    """

    def __init__(
        self, handle: Any, fields: Mapping[str, object], visitor: Visitor, model: str, call: str
    ) -> None:
        self._handle, self._call = handle, call
        options = {"method_name": "decode", "stream": True}
        routed = {"multiplexed_model_id": model} if model else {}
        self._response = handle.options(**options, **routed).remote(dict(fields), visitor, call)
        self._coming: Future[Any] | None = None
        self._over = threading.Event()

    def next_batch(self, within_s: float) -> list[Event] | None:
        """Return the next batch, None if none arrives in time.

        Raises:
            Lost: the replica sends nothing more.
            BusyError: the queue is full.
            EngineError: the replica could not accept the request.
        """
        if self._coming is None:
            self._coming = asyncio.run_coroutine_threadsafe(self._next(), event_loop())
        try:
            batch = self._coming.result(within_s)
        except TimeoutError:
            # The batch itself may have ended with a TimeoutError, which is a loss.
            if not self._coming.done():
                return None
            raise ReplicaLost("TimeoutError") from None
        except BaseException as error:
            raise _translate_error(error) from None
        self._coming = None
        if batch is _END:
            raise ReplicaLost("it ended early")
        return batch

    def stop(self) -> None:
        """Ask the replica to stop the run within one step; remaining events still arrive."""
        asyncio.run_coroutine_threadsafe(self._send_stop(), event_loop())

    def close(self) -> None:
        """Close the stream: the replica drops the run."""
        self._over.set()
        self._response.cancel()

    def has_replica(self) -> bool:
        """Return whether any replica answers."""
        asked = asyncio.run_coroutine_threadsafe(_broadcast(self._handle, "alive"), event_loop())
        return bool(asked.result())

    async def _next(self) -> Any:
        try:
            return await self._response.__anext__()
        except StopAsyncIteration:
            return _END

    async def _send_stop(self) -> None:
        # Serve's router chose the replica, so the stop goes to all until one has the run.
        for pause_s in _STOP_RETRY_PAUSES_S:
            if self._over.is_set() or True in await _broadcast(self._handle, "stop", self._call):
                return
            await asyncio.sleep(pause_s)


async def _broadcast(handle: Any, method: str, *args: Any) -> list[Any]:
    """Return the answers of all replicas, without those that fail."""
    try:
        asked = handle.broadcast(method, *args)
        answers = await asked.results_async(timeout_s=_ANSWER_TIMEOUT_S, return_exceptions=True)
    except (TimeoutError, RuntimeError, ray_errors.RayError, *_LOST_ERRORS):
        return []
    return [answer for answer in answers if not isinstance(answer, BaseException)]


def collect_reports(handle: Any) -> list[dict[str, Any]]:
    """Return the report of every replica that answers."""
    return asyncio.run_coroutine_threadsafe(_broadcast(handle, "report"), event_loop()).result()


@lru_cache(maxsize=1)
def event_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that reads all streams of this process."""
    made = asyncio.new_event_loop()
    threading.Thread(target=made.run_forever, name="replicas", daemon=True).start()
    return made


def _translate_error(error: BaseException) -> BaseException:
    """Translate an error of Ray into one of a run."""
    if isinstance(error, BackPressureError):
        return queue_full_error(error.args[0] if error.args else 0)
    cause = getattr(error, "cause", None) if isinstance(error, ray_errors.RayTaskError) else error
    if isinstance(cause, EngineError):
        return cause
    if isinstance(cause, (ray_errors.RayError, *_LOST_ERRORS)):
        return ReplicaLost(type(cause).__name__)
    return error
