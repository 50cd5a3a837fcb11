"""Reading of untrusted files with limits on size, repeated reads and time."""

from __future__ import annotations

import io
import os
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

from engine.errors import ParameterError
from engine.messages import Message
from engine.settings import SETTINGS

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class ReadLimitError(Exception):
    """A decoder read a file too often. It is no OSError because Pillow's readers ignore those."""


class ReadTimeoutError(Exception):
    """Reading a file took too long."""


class BoundedFile(io.BytesIO):
    """An in-memory file that limits the bytes read in all and the time.

    Pillow follows any offsets in a file, so 20 MB of TIFF can make it read gigabytes. Pillow reads
    pixels in blocks of 64 KB, so the limits take effect soon.

    Args:
        data: content of the file.
        most_s: time limit in seconds from now.
    """

    _AGAIN = 4
    """Allowed reads of the whole file: a decoder reads header, frames and pixels once each."""
    _SPARE = 1_000_000

    def __init__(self, data: bytes, most_s: float) -> None:
        super().__init__(data)
        self.left = self._AGAIN * len(data) + self._SPARE
        self.until = time.monotonic() + most_s

    def read(self, size: int | None = -1, /) -> bytes:
        """Read up to ``size`` bytes.

        Raises:
            TooMuchError: the file was read too many times over.
            TooLongError: the time limit has passed.
        """
        found = super().read(size)
        self.left -= len(found)
        if self.left < 0:
            raise ReadLimitError
        self.check_time()
        return found

    def check_time(self) -> None:
        """Check the time limit, also between steps that read nothing.

        Raises:
            ReadTimeoutError: the time limit has passed.
        """
        if time.monotonic() > self.until:
            raise ReadTimeoutError


class TimedFile(io.BytesIO):
    """An in-memory file that reports its end after a time limit: the only way to stop libsndfile.

    Args:
        data: content of the file.
        most_s: time limit in seconds from now.
    """

    def __init__(self, data: bytes, most_s: float) -> None:
        super().__init__(data)
        self.until = time.monotonic() + most_s

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read into a buffer; return 0, the end of the file, after the time limit."""
        return 0 if self.is_late() else super().readinto(buffer)

    def is_late(self) -> bool:
        """Return True after the time limit."""
        return time.monotonic() > self.until


def read_file(name: str, path: str | Path, most: int) -> bytes:
    """Read a local file; refused on public deployments.

    Args:
        name: parameter name, for errors.
        path: path of a regular file; devices are refused because they may have no end.
        most: limit in bytes.

    Raises:
        ParameterError: the deployment is public, or the file is no regular file, unreadable, empty
            or too large.
    """
    if SETTINGS.public:
        raise ParameterError(
            name, str(path), "a public deployment reads no files of its machine; give the bytes"
        )
    try:
        # Without O_NONBLOCK, opening a pipe without a writer would block for ever.
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
        raise ParameterError(
            name, str(path), Message("the file cannot be read ({reason})", reason=reason)
        ) from None
    except ValueError:
        raise ParameterError(name, str(path), "no file can have such a name") from None
    return check_file_size(name, data, most, str(path))


def check_file_size(name: str, data: bytes, most: int, got: str | None = None) -> bytes:
    """Return ``data`` if it is neither empty nor too large.

    Args:
        name: parameter name, for errors.
        data: content of the file.
        most: limit in bytes.
        got: label of the file in errors; its size if None.

    Raises:
        ParameterError: the file is empty or too large.
    """
    if not data:
        raise ParameterError(name, got or size_label(data), "the file is empty")
    if len(data) > most:
        raise ParameterError(
            name, got or size_label(data), Message("at most {n} MB", n=f"{most / 1e6:g}")
        )
    return data


def size_label(data: bytes) -> str:
    """Return the label of a file without a name: its size in bytes."""
    return Message("{n} bytes", n=len(data))
