"""Models that are made of files of this machine: where what was made is kept, and of which files it was made."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from engine.models import catalogue

SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PLACE = "made"

Sources = Mapping[str, Path]
"""What a file is for -> the file; their contents together decide what is made."""


def folder_of(sha256: str) -> Path:
    """Return where a model is kept, or will be, that is made of files with this sum."""
    return catalogue.brought_to(_PLACE) / sha256


def note_of(sources: Sources) -> Path:
    """Return the file that holds the sum of some files, named by their paths and state.

    The state is size, inode and both times, so that no other file is taken for one that was read.

    Raises:
        OSError: one is gone.
    """
    state = []
    for label, path in sorted(sources.items()):
        now = path.resolve().stat()
        times = now.st_mtime_ns, now.st_ctime_ns
        state.append((label, str(path.resolve()), now.st_size, now.st_ino, *times))
    return catalogue.brought_to(_PLACE) / f"{hashlib.sha256(repr(state).encode()).hexdigest()}.sum"


def made_of(sources: Sources) -> Path | None:
    """Return the folder that was made of files as they are now, None where none was; they are not read."""
    try:
        folder = folder_of(note_of(sources).read_text("ascii").strip())
    except (OSError, ValueError):
        return None
    there = (folder / catalogue.BROUGHT_FROM).is_file() and (folder / "config.json").is_file()
    return folder if there else None
