"""Keys of models built from local files: where a build is stored, and which files it depends on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from engine.sources import catalogue

SHA256 = re.compile(r"[0-9a-f]{64}", re.ASCII)
_BUILDS = "made"

BuildFiles = Mapping[str, Path]
"""Label -> file; the contents of all files decide the build."""


def build_folder(sha256: str) -> Path:
    """Return the folder of the build with this sum, which may not exist yet."""
    return catalogue.install_path(_BUILDS) / sha256


def build_key_file(files: BuildFiles) -> Path:
    """Return the path of the note that stores the sum of some files, so they need not be read again.

    It is named by the files' paths, sizes, inodes, and modification and change times. A changed file
    therefore has no note.

    Raises:
        OSError: a file is missing.
    """
    state = []
    for label, path in sorted(files.items()):
        now = path.resolve().stat()
        times = now.st_mtime_ns, now.st_ctime_ns
        state.append((label, str(path.resolve()), now.st_size, now.st_ino, *times))
    return (
        catalogue.install_path(_BUILDS) / f"{hashlib.sha256(repr(state).encode()).hexdigest()}.sum"
    )


def find_build(files: BuildFiles) -> Path | None:
    """Return the folder built from the files' current content, else None; the files are not read."""
    try:
        folder = build_folder(build_key_file(files).read_text("ascii").strip())
    except (OSError, ValueError):
        return None
    return folder if is_complete(folder) else None


def is_complete(folder: Path) -> bool:
    """Return True if the folder holds a completely built or installed model."""
    return (folder / catalogue.SOURCE_FILE).is_file() and (folder / "config.json").is_file()
