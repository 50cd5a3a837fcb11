"""Run torch work in a thread that ends with the work."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def run_in_thread(work: Callable[[], T]) -> T:
    """Run `work` in a new thread with the caller's context variables, wait for it and return its result.

    Raises:
        Exception: whatever `work` raises.
    """
    # GNU OpenMP keeps workers for every live thread that has computed. Once they outnumber the
    # processors, they sleep between operations and small models run at half speed.
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(contextvars.copy_context().run, work).result()
