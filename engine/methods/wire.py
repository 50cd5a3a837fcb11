"""Messages between the playground and a process that runs foreign code: JSON, each after its length.

Nothing but JSON is read, so that nothing a child writes is ever more than data.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any, BinaryIO

_LENGTH = struct.Struct(">I")
MAX_MESSAGE = 8_000_000
"""Bytes of one message at most."""


class WireError(Exception):
    """What came is no message."""


def packed(message: dict[str, Any]) -> bytes:
    """Return a message as it goes over the pipe."""
    text = json.dumps(message).encode()
    return _LENGTH.pack(len(text)) + text


def read(pipe: BinaryIO) -> dict[str, Any] | None:
    """Return the next message, None at the end; waits for it.

    Raises:
        WireError: what came is no message.
    """
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    messages = list(unpacked(bytearray(head + pipe.read(length))))
    return messages[0] if messages else None


def unpacked(buffer: bytearray) -> Iterator[dict[str, Any]]:
    """Yield the whole messages of a buffer and take them out of it.

    Raises:
        WireError: what is there is no message.
    """
    while len(buffer) >= _LENGTH.size:
        (length,) = _LENGTH.unpack_from(buffer)
        if length > MAX_MESSAGE:
            raise WireError
        if len(buffer) < _LENGTH.size + length:
            return
        text = bytes(buffer[_LENGTH.size : _LENGTH.size + length])
        del buffer[: _LENGTH.size + length]
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            raise WireError from None
        if not isinstance(message, dict):
            raise WireError
        yield message
