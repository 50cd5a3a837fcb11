"""Computing in threads that end with their work.

GNU OpenMP keeps workers for every thread that ever computed. Once there are more of them than
processors it lets them sleep between operations, and small models run at half speed from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def aside(work: Callable[[], T]) -> T:
    """Do the work in a thread of its own and wait for it; return what it returns, raise what it raises."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(work).result()
