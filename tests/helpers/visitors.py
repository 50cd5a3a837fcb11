"""Work that somebody asks for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from engine import DecodeRequest, decode
from engine.run.decoding import DecodeRun
from engine.run.visitor import VISITOR, Visitor


@contextmanager
def asking_as(visitor: Visitor) -> Iterator[None]:
    """Let a visitor be who asks for what begins in the block."""
    token = VISITOR.set(visitor)
    try:
        yield
    finally:
        VISITOR.reset(token)


def decode_as(visitor: Visitor, request: DecodeRequest) -> DecodeRun:
    """Begin a run for a visitor."""
    with asking_as(visitor):
        return decode(request)
