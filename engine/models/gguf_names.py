"""GGUF files as models: which names are such a file, and where what was made of one is kept."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from engine.models import catalogue
from engine.settings import SETTINGS

_MAGIC = b"GGUF"
_PLACE = "gguf"


def is_gguf(name: Any) -> bool:
    """Return whether a name is the absolute path of a GGUF file of this machine; never on a public Space."""
    if not isinstance(name, str) or SETTINGS.public or not name.lower().endswith(".gguf"):
        return False
    try:
        path = Path(name)
        if not path.is_absolute() or not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):  # a name may hold what no path can
        return False


def folder_of(sha256: str) -> Path:
    """Return where the model of a GGUF file is kept, or will be."""
    return catalogue.brought_to(_PLACE) / sha256


def note_of(name: str) -> Path:
    """Return the file that holds a GGUF file's sha256, named by the file's path and state.

    The state is size, inode and both times, so that no other file is taken for the one that was read.

    Raises:
        OSError: the file is gone.
    """
    path = Path(name).resolve()
    now = path.stat()
    state = (str(path), now.st_size, now.st_ino, now.st_mtime_ns, now.st_ctime_ns)
    return catalogue.brought_to(_PLACE) / f"{hashlib.sha256(repr(state).encode()).hexdigest()}.sum"


def converted(name: str) -> Path | None:
    """Return the folder that was made of a GGUF file as it is now, None where none was; the file is not read."""
    try:
        folder = folder_of(note_of(name).read_text("ascii").strip())
    except (OSError, ValueError):
        return None
    there = (folder / catalogue.BROUGHT_FROM).is_file() and (folder / "config.json").is_file()
    return folder if there else None


def is_stale(name: str, revision: str | None) -> bool:
    """Return whether a GGUF file that is there is another than the one that was loaded from it.

    Args:
        name: as in ``loading.load``.
        revision: the sha256 of what was loaded.
    """
    if not is_gguf(name):
        return False
    folder = converted(name)
    return folder is None or folder.name != revision
