"""Recognises GGUF files."""

from __future__ import annotations

from pathlib import Path

_MAGIC = b"GGUF"


def is_gguf_file(name: str) -> bool:
    """Return True if the name is the absolute path of a GGUF file."""
    if not name.lower().endswith(".gguf"):
        return False
    try:
        path = Path(name)
        if not path.is_absolute() or not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):  # the name may not be a valid path, e.g. with a null byte
        return False
