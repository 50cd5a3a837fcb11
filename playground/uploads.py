"""What visitors upload: a folder of this process alone, with little room, emptied again and gone at the end."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from pathlib import Path

from engine.settings import SETTINGS


class Uploads:
    """A folder for files that are read once.

    Args:
        folder: where Gradio puts them.
        most_bytes: all of them together; the oldest go first.
        age_s: seconds after which one goes, read or not.
    """

    def __init__(self, folder: Path, most_bytes: int, age_s: float) -> None:
        self.folder, self.most_bytes, self.age_s = folder, most_bytes, age_s

    def make_room(self, coming: int) -> None:
        """Remove what has expired, and the oldest until so many bytes more have room."""
        found = sorted(self._files())
        total = sum(size for _, size, _ in found)
        for changed, size, path in found:
            if time.time() - changed < self.age_s and total + coming <= self.most_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size

    def remove(self, path: str) -> None:
        """Remove an upload that was read; a path elsewhere is left alone."""
        if self.holds(Path(path)):
            Path(path).resolve().unlink(missing_ok=True)

    def holds(self, path: Path) -> bool:
        """Return whether a path is one of these files' own."""
        return path.resolve().is_relative_to(self.folder.resolve())

    def clear(self) -> None:
        """Remove all of it."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _files(self) -> list[tuple[float, int, Path]]:
        """Return when each file came, its bytes and its path."""
        found = []
        for path in self.folder.rglob("*"):
            try:
                about = path.stat()
            except OSError:  # somebody else removed it
                continue
            if path.is_file():
                found.append((about.st_mtime, about.st_size, path))
        return found


UPLOADS = Uploads(
    Path(os.environ.setdefault("GRADIO_TEMP_DIR", tempfile.mkdtemp(prefix="playground-"))),
    SETTINGS.max_uploads_bytes,
    SETTINGS.uploads_age_s,
)
atexit.register(UPLOADS.clear)
