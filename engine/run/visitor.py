"""Who asks for work: known to the line alone, which is fair by it."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Visitor:
    """Somebody who asks; both are empty where the asking program is its own and only one."""

    address: str = ""
    """Where from: many may share it, so it takes its turn as one and shares that among its sessions."""
    session: str = ""
    """Which page or program there; whoever asks may choose it."""


NOBODY = Visitor()
VISITOR: ContextVar[Visitor] = ContextVar("visitor", default=NOBODY)
"""Who asks for what is begun now; work goes on in his name in its own thread."""
