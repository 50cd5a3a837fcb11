"""How a benchmark times what it compares the engine with."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from engine.one_shot_thread import run_in_thread

T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Return seconds and the result of work done as the engine does its own.

    That is in a thread that ends: one that has computed and stays slows all later runs down.
    """
    started = time.perf_counter()
    result = run_in_thread(work)
    return time.perf_counter() - started, result
