"""Bytes of files that may be anybody's: bounded before they are read, and in the time that reading them takes."""

from __future__ import annotations

import io
import os
import stat
import time
from pathlib import Path
from typing import Any

from engine.errors import ParameterError
from engine.settings import SETTINGS


class TooMuchError(Exception):
    """A file names its bytes over and over; no OSError, which Pillow's readers pass over."""


class TooLongError(Exception):
    """A file takes more time to read than there is."""


class Bounded(io.BytesIO):
    """A file in memory that ends what reads it too often: Pillow's readers follow whatever offsets a file names.

    Every step of a reader passes here, and pixels come by blocks of 64 KB, so nothing goes on much longer
    than it may.

    Args:
        data: the file.
        most_s: seconds from now.
    """

    _AGAIN = 4
    """A reader looks once for the header, once for further frames and once for the pixels."""
    _SPARE = 1_000_000

    def __init__(self, data: bytes, most_s: float) -> None:
        super().__init__(data)
        self.left = self._AGAIN * len(data) + self._SPARE
        self.until = time.monotonic() + most_s

    def read(self, size: int | None = -1, /) -> bytes:
        """Return what comes next.

        Raises:
            TooMuchError: all of it was read several times over.
            TooLongError: the time is over.
        """
        found = super().read(size)
        self.left -= len(found)
        if self.left < 0:
            raise TooMuchError
        if time.monotonic() > self.until:
            raise TooLongError
        return found


class Timed(io.BytesIO):
    """A file in memory that is at its end when its time is over: libsndfile cannot be told in another way.

    Args:
        data: the file.
        most_s: seconds from now.
    """

    def __init__(self, data: bytes, most_s: float) -> None:
        super().__init__(data)
        self.until = time.monotonic() + most_s

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer as far as there is something, and time."""
        return 0 if self.late() else super().readinto(buffer)

    def late(self) -> bool:
        """Return whether the time is over."""
        return time.monotonic() > self.until


def read_file(name: str, path: str | Path, most: int) -> bytes:
    """Return a file of this machine, for whoever owns it.

    Args:
        name: of the parameter, for what is said.
        path: its place; only a regular file is read, as a device may have no end.
        most: bytes.

    Raises:
        ParameterError: on a public deployment, or it is none, cannot be read, is empty or too large.
    """
    if SETTINGS.public:
        raise ParameterError(
            name, str(path), "a public deployment reads no files of its machine; give the bytes"
        )
    try:
        # Without O_NONBLOCK a pipe that nobody writes to would be waited for.
        flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        descriptor = os.open(path, flags)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ParameterError(name, str(path), "it must be a file, and no folder or device")
            with open(descriptor, "rb", closefd=False) as file:
                data = file.read(most + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ParameterError(name, str(path), f"the file cannot be read ({reason})") from None
    except ValueError:
        raise ParameterError(name, str(path), "no file can have such a name") from None
    return checked(name, data, most, str(path))


def checked(name: str, data: bytes, most: int, got: str | None = None) -> bytes:
    """Return the bytes of a file that is neither empty nor too large.

    Args:
        name: of the parameter, for what is said.
        data: the file.
        most: bytes.
        got: what it is called, its size for None.

    Raises:
        ParameterError: it is.
    """
    if not data:
        raise ParameterError(name, got or size_of(data), "the file is empty")
    if len(data) > most:
        raise ParameterError(name, got or size_of(data), f"at most {most / 1e6:g} MB")
    return data


def size_of(data: bytes) -> str:
    """Return what a file without a name is called."""
    return f"{len(data)} bytes"
