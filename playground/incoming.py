"""Bodies of requests that are on their way: many large ones at once may not fill the memory."""

from __future__ import annotations

from collections.abc import AsyncIterator

from engine.errors import BusyError
from engine.settings import SETTINGS

BUSY = "Too much is being sent here at once; try again in a moment."


class BodyTooLargeError(Exception):
    """A body has more bytes than it may."""


class Incoming:
    """Counts what has come of all bodies that are still on their way.

    Args:
        most_bytes: of them together.
    """

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes, self.bytes = most_bytes, 0

    async def read(self, parts: AsyncIterator[bytes], most: int) -> bytes:
        """Return a whole body.

        Args:
            parts: it, as it comes.
            most: bytes that it may have.

        Raises:
            BodyTooLargeError: it has more.
            BusyError: too much is on its way at once.
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
            self.bytes -= length


INCOMING = Incoming(SETTINGS.max_held_media_bytes)
