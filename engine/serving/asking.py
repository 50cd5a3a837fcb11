"""What a run needs of whoever serves it, in words that know no engine of replicas."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from engine.run.visitor import Visitor
from engine.trace.events import Event


class Lost(Exception):
    """A replica is gone, or nobody can be asked yet; the run is asked for again."""


class Stream(Protocol):
    """The events of one run from one replica."""

    def take(self, within_s: float) -> list[Event] | None:
        """Return the next batch, empty where the replica only says that it is there; None for none in time.

        Raises:
            Lost: no more comes from this replica.
            BusyError: too many wait already.
            EngineError: the replica could not take the request.
        """
        ...

    def stop(self) -> None:
        """Tell the replica to stop within one step; what there is still comes."""

    def leave(self) -> None:
        """Take nothing more: the replica forgets the run."""

    def anybody(self) -> bool:
        """Return whether any replica answers."""
        ...


Ask = Callable[[Mapping[str, Any], Visitor, str], Stream | None]
"""Asks for a run by the request's fields, in a visitor's name, routed by a model ("" for none).

None while the replicas are being found; an EngineError where there are none to be found.
"""
