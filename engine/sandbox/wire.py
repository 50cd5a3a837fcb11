"""Messages between the playground and a sandboxed process: length-prefixed JSON.

Only JSON is decoded, so nothing that the process sends can be more than data.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from engine.messages import add_templates, restore_templates

_LENGTH = struct.Struct(">I")
MAX_MESSAGE = 8_000_000
"""Most bytes of one message."""


class WireError(Exception):
    """The received bytes are not a message."""


def pack_message(message: Mapping[str, object]) -> bytes:
    """Return a message as bytes for the pipe."""
    text = json.dumps(add_templates(message)).encode()
    return _LENGTH.pack(len(text)) + text


def read_message(pipe: BinaryIO) -> dict[str, Any] | None:
    """Wait for the next message and return it, None at the end.

    Raises:
        WireError: the received bytes are not a message.
    """
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    messages = list(unpack_messages(bytearray(head + pipe.read(length))))
    return messages[0] if messages else None


def unpack_messages(buffer: bytearray) -> Iterator[dict[str, Any]]:
    """Yield the complete messages of a buffer and remove them from it.

    Raises:
        WireError: the received bytes are not a message.
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
        yield restore_templates(message)
