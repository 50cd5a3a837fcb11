"""GGUF files as models: which names are such a file, and what was made of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.models.made_names import Sources, made_of
from engine.settings import SETTINGS

_MAGIC = b"GGUF"


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


def sources_of(name: str) -> Sources:
    """Return what a GGUF file's model is made of: the file alone."""
    return {"file": Path(name)}


def converted(name: str) -> Path | None:
    """Return the folder that was made of a GGUF file as it is now, None where none was; the file is not read."""
    return made_of(sources_of(name))
