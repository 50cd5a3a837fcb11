"""Work that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine.run.visitor import VISITOR, Visitor


@contextmanager
def asking_as(visitor: Visitor) -> Iterator[None]:
    """Let a visitor be who asks for what begins in the block."""
    token = VISITOR.set(visitor)
    try:
        yield
    finally:
        VISITOR.reset(token)
