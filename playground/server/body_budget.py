"""A shared memory budget for request bodies that are being received."""

from __future__ import annotations

from collections.abc import AsyncIterator

from engine.errors import BusyError
from engine.settings import SETTINGS

BUSY = "Too much is being sent here at once; try again in a moment."


class BodyTooLargeError(Exception):
    """A body exceeds its own limit."""


class BodyBudget:
    """Counts the received bytes of all bodies in progress, so that slow senders cannot fill memory.

    Args:
        most_bytes: limit for all bodies together.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.bytes = most_bytes, 0

    async def read(self, parts: AsyncIterator[bytes], most: int) -> bytes:
        """Return a whole body.

        Args:
            parts: its chunks.
            most: limit of this body in bytes.

        Raises:
            BodyTooLargeError: the body exceeds ``most``.
            BusyError: all bodies together exceed the budget.
        """
        found, length = [], 0
        try:
            async for part in parts:
                length += len(part)
                self.bytes += len(part)
                if length > most:
                    raise BodyTooLargeError
                if self.bytes > self.most_bytes:
                    raise BusyError(BUSY)
                found.append(part)
            return b"".join(found)
        finally:
            # Only bodies in progress count; a complete one belongs to its handler.
            self.bytes -= length


BODY_BUDGET = BodyBudget(SETTINGS.max_held_media_bytes)
