"""GGUF files as models: which names are such a file, and the folder converted from one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.settings import SETTINGS
from engine.sources.build_key import Sources, find_build

_MAGIC = b"GGUF"


def is_gguf(name: Any) -> bool:
    """Return True if the name is the absolute path of a local GGUF file; always False on a public Space."""
    if not isinstance(name, str) or SETTINGS.public or not name.lower().endswith(".gguf"):
        return False
    try:
        path = Path(name)
        if not path.is_absolute() or not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):  # the name may not be a valid path, e.g. with a null byte
        return False


def gguf_sources(name: str) -> Sources:
    """Return the files whose content decides a GGUF file's model: the file itself."""
    return {"file": Path(name)}


def find_converted_gguf(name: str) -> Path | None:
    """Return the folder converted from the file's current content, else None; the file is not read."""
    return find_build(gguf_sources(name))
