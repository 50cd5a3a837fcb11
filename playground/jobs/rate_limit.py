"""Rate limit per network address: a token bucket that refills within a minute."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable

_MINUTE_S = 60.0
_MAX_ADDRESSES = 4096


class RateLimiter:
    """Token buckets by address.

    Args:
        most: Allowed times per minute, and at once.
        clock: Returns the time in seconds.
    """

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self.most, self.clock = most, clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        self._lock = threading.Lock()

    def allows(self, address: str) -> bool:
        """Return whether an address has a try left, without using it."""
        with self._lock:
            return self._available(address) >= 1

    def take(self, address: str) -> bool:
        """Use one try; return whether it was allowed."""
        with self._lock:
            left = self._available(address)
            self._left[address] = (max(0.0, left - 1), self.clock())
            self._left.move_to_end(address)
            while len(self._left) > _MAX_ADDRESSES:
                self._left.popitem(last=False)
            return left >= 1

    def _available(self, address: str) -> float:
        left, since = self._left.get(address, (float(self.most), self.clock()))
        return min(float(self.most), left + (self.clock() - since) * self.most / _MINUTE_S)
