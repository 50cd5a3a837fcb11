"""Processes for methods, begun when they are needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine.methods.child import Child


@contextmanager
def child_for(
    folder: str, weights: dict[str, Any] | None, cancelled: threading.Event | None
) -> Iterator[Child]:
    """Return a process with a model in its memory, which is closed at the end."""
    with Child(folder, weights) as child:
        child.wait(cancelled)
        yield child
