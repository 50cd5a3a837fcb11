"""The protocol between a run and the replica that serves it, independent of Ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from engine.run.visitor import Visitor
from engine.trace.events import Event


class ReplicaLost(Exception):
    """The replica is gone, or none is available yet; the run is requested again."""


class EventStream(Protocol):
    """The events of one run from one replica."""

    def next_batch(self, within_s: float) -> list[Event] | None:
        """Return the next batch, empty for a heartbeat; None if none arrives in time.

        Raises:
            Lost: the replica sends nothing more.
            BusyError: the queue is full.
            EngineError: the replica could not accept the request.
        """
        ...

    def stop(self) -> None:
        """Ask the replica to stop within one step; events already made still arrive."""

    def close(self) -> None:
        """Close the stream: the replica drops the run."""

    def has_replica(self) -> bool:
        """Return whether any replica answers."""
        ...


OpenStream = Callable[[Mapping[str, Any], Visitor, str], EventStream | None]
"""Requests a run: the request's fields, the visitor, and the model for routing ("" for none).

Returns None while replicas are being found; raises EngineError if there are none.
"""
