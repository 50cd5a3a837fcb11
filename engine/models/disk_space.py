"""A full disk, as libraries report it and as a visitor reads it."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import ModelError
from engine.messages import Message

DISK_FULL_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of a full disk or an exhausted quota."""
_DISK_FULL_PHRASES = (
    "No space left on device",
    "Disk quota exceeded",
    "not enough space on the disk",
)


def is_disk_full(text: str) -> bool:
    """Return True if a message says that a disk is full."""
    return any(part in text for part in _DISK_FULL_PHRASES)


def no_space_message(name: str, total: int, most: int) -> str:
    """Return the error sentence for a model whose files do not fit on the disk.

    Args:
        name: the model's name.
        total: bytes of its files.
        most: bytes available for them.
    """
    return Message(
        "{name} has {total} GB of files, and there is room for {most} GB here.",
        name=name,
        total=f"{total / 1e9:.2f}",
        most=f"{most / 1e9:.2f}",
    )


@contextmanager
def disk_errors(name: str, folder: Path, setting: str = "PLAYGROUND_MODELS") -> Iterator[None]:
    """Turn write errors of a block into one-sentence ModelErrors.

    Args:
        name: the model that is written.
        folder: where it is written.
        setting: the environment variable that chooses the folder.
    """
    try:
        yield
    except OSError as error:
        other = Message("{setting} names another folder", setting=setting)
        if error.errno in DISK_FULL_ERRNOS:
            raise ModelError(
                "The disk has no space left for {name} at {folder}; {other}.",
                name=name,
                folder=folder,
                other=other,
            ) from None
        reason = error.strerror or type(error).__name__
        raise ModelError(
            "{name} cannot be kept at {folder} ({reason}); {other}.",
            name=name,
            folder=folder,
            reason=reason,
            other=other,
        ) from None
