"""Identifies who requests work; only the run queue uses it, to share turns fairly."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Visitor:
    """A requester; both fields are empty when the program calls the engine itself."""

    address: str = ""
    """Network address; many visitors may share it, so it gets turns as one and divides them."""
    session: str = ""
    """Page or program at that address; chosen by the client, so not to be trusted."""


NO_VISITOR = Visitor()
VISITOR: ContextVar[Visitor] = ContextVar("visitor", default=NO_VISITOR)
"""The requester of work started now; the worker thread takes it over."""
