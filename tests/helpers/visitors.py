"""Work that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine.run.visitor import VISITOR, Visitor

FIRST, SECOND = (Visitor(f"192.0.2.{n}", "page") for n in (1, 2))
"""Two visitors at different addresses."""


@contextmanager
def asking_as(visitor: Visitor) -> Iterator[None]:
    """Let a visitor be who asks for what begins in the block."""
    token = VISITOR.set(visitor)
    try:
        yield
    finally:
        VISITOR.reset(token)
