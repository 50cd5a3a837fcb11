"""Bounds on the cost of JSON, checked on its bytes before it is parsed.

An empty list takes two bytes of text and 64 bytes of memory, and every later check visits it. So the
size of a text does not bound what parsing and checking it cost; the number of its values does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.messages import Message

# The closing quote is optional: a string that the chunk cuts off is matched once, to the end.
# Possessive quantifiers (*+) never backtrack, so no bytes can make the search slow.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_STRING_REST = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_NOT_STRUCTURE = bytes(b for b in range(256) if b not in b"[]{}")
_CHUNK_BYTES = 1 << 18
_OPENING = frozenset(b"[{")


@dataclass(frozen=True)
class JsonLimits:
    """Limits of a JSON text.

    Attributes:
        depth: levels of nesting.
        containers: objects and lists.
        values: values of all kinds, and keys.
        text_bytes: bytes outside the longest string, None for no limit.
    """

    depth: int
    containers: int
    values: int
    text_bytes: int | None = None


class JsonLimitError(Exception):
    """A JSON text exceeds a limit.

    Args:
        template: the sentence, in which ``what`` stands for the text and ``n`` for the limit.
        limit: the limit.
    """

    def __init__(self, template: str, limit: int) -> None:
        super().__init__(template)
        self.template, self.limit = template, f"{limit:,}"

    def to_message(self, what: Message) -> Message:
        """Return the sentence about a text, such as "The file"."""
        return Message(self.template, what=what, n=self.limit)


class JsonSizeError(JsonLimitError):
    """A JSON text is too large."""


class JsonScanner:
    """Counts what a JSON text contains, chunk by chunk; the text need not be valid.

    Args:
        limits: its limits.
    """

    def __init__(self, limits: JsonLimits) -> None:
        self.limits = limits
        self._depth = self._containers = self._values = 0
        self._bytes = self._longest = self._current = 0
        self._in_string = False
        self._tail = b""

    def feed(self, chunk: bytes) -> None:
        """Count the next bytes.

        Raises:
            JsonLimitError: the text exceeds a limit.
        """
        # UTF-16 and UTF-32, in which ``json`` would also read, hide quotes and brackets from a count
        # by bytes. Their JSON always contains NUL, that in UTF-8 never does.
        if b"\0" in chunk:
            raise JsonLimitError("{what} is not JSON in UTF-8.", 0)
        self._bytes += len(chunk)
        # The tail is the backslash at the end of the chunk before: it belongs to the next character.
        chunk = self._tail + chunk
        self._tail = b""
        if self._in_string:
            chunk = self._skip_string(chunk)
        self._count(self._remove_strings(chunk))
        text_bytes = self.limits.text_bytes
        if text_bytes is not None and self._bytes - max(self._longest, self._current) > text_bytes:
            raise JsonSizeError(
                "{what} has more than {n} bytes in addition to one picture or sound in base64.",
                text_bytes,
            )

    def _skip_string(self, chunk: bytes) -> bytes:
        """Return what follows the string that an earlier chunk began."""
        found = _STRING_REST.match(chunk)
        end = found.end() if found else 0
        self._current += end
        if end < len(chunk) and chunk[end] == ord('"'):
            self._longest, self._current = max(self._longest, self._current), 0
            self._in_string = False
            return chunk[end + 1 :]
        self._tail = chunk[end:]  # a backslash, whose character is in the next chunk
        return b""

    def _remove_strings(self, chunk: bytes) -> bytes:
        strings = _STRING.findall(chunk)
        if not strings:
            return chunk
        self._longest = max(self._longest, *map(len, strings))
        last = strings[-1]
        if chunk.endswith(last) and not _is_closed(last):
            self._in_string, self._current = True, 0
            self._skip_string(last[1:])
        return _STRING.sub(b"", chunk)

    def _count(self, outside: bytes) -> None:
        limits = self.limits
        for bracket in outside.translate(None, _NOT_STRUCTURE):
            self._depth += 1 if bracket in _OPENING else -1
            if self._depth > limits.depth:
                raise JsonLimitError("{what} nests deeper than {n} levels.", limits.depth)
        containers = outside.count(b"[") + outside.count(b"{")
        self._containers += containers
        if self._containers > limits.containers:
            raise JsonLimitError("{what} has more than {n} objects and lists.", limits.containers)
        # In each container a comma comes before every value but the first, and a colon follows every key.
        self._values += containers + outside.count(b",") + outside.count(b":")
        if self._values > limits.values:
            raise JsonLimitError("{what} has more than {n} values.", limits.values)


def _is_closed(string: bytes) -> bool:
    """Return whether a matched string ends with its closing quote."""
    found = _STRING_REST.match(string, 1)
    return found is not None and found.end() < len(string) and string.endswith(b'"')


def check_json(data: bytes, limits: JsonLimits) -> None:
    """Check a whole JSON text.

    Raises:
        JsonLimitError: the text exceeds a limit.
    """
    scanner = JsonScanner(limits)
    for start in range(0, len(data), _CHUNK_BYTES):
        scanner.feed(data[start : start + _CHUNK_BYTES])
