"""Upload folder of this process: limited in size, expired by age and deleted at exit."""

from __future__ import annotations

import atexit
import os
import tempfile
import time
from pathlib import Path

from engine.settings import SETTINGS
from engine.temporary_folder import TemporaryFolder


class UploadFolder:
    """A folder of files that are read once.

    Args:
        folder: Folder where Gradio stores uploads.
        most_bytes: Limit for all files together; the oldest are removed first.
        age_s: Seconds after which a file is removed, read or not.
    """

    def __init__(self, folder: Path, most_bytes: int, age_s: float) -> None:
        self.folder, self.most_bytes, self.age_s = folder, most_bytes, age_s

    def free_space(self, coming: int) -> None:
        """Remove expired files, and the oldest ones until ``coming`` more bytes fit."""
        found = sorted(self._list_files())
        total = sum(size for _, size, _ in found)
        for changed, size, path in found:
            if time.time() - changed < self.age_s and total + coming <= self.most_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size

    def remove(self, path: str) -> None:
        """Remove an upload that was read. A path outside the folder is ignored."""
        if self.contains_path(Path(path)):
            Path(path).resolve().unlink(missing_ok=True)

    def contains_path(self, path: Path) -> bool:
        """Return whether a path is inside the folder."""
        return path.resolve().is_relative_to(self.folder.resolve())

    def _list_files(self) -> list[tuple[float, int, Path]]:
        """Return (modification time, bytes, path) of each file."""
        found = []
        for path in self.folder.rglob("*"):
            try:
                about = path.stat()
            except OSError:  # another thread removed it
                continue
            if path.is_file():
                found.append((about.st_mtime, about.st_size, path))
        return found


def _create_folder() -> TemporaryFolder:
    """Create the folder below GRADIO_TEMP_DIR, whose other files are the owner's and stay.

    Raises:
        ValueError: the setting names no folder that can be written; the message says so.
    """
    given = os.environ.get("GRADIO_TEMP_DIR", "")
    parent = Path(given if given.strip() else tempfile.gettempdir()).absolute()
    try:
        parent.mkdir(parents=True, exist_ok=True)
        return TemporaryFolder("uploads", parent)
    except OSError as error:
        raise ValueError(
            f"GRADIO_TEMP_DIR = {given!r} is not allowed: it must be a folder that can be written"
            f" ({type(error).__name__})"
        ) from None


OWN_FOLDER = _create_folder()
# Gradio reads GRADIO_TEMP_DIR too, so both use the same folder.
os.environ["GRADIO_TEMP_DIR"] = str(OWN_FOLDER.path)
UPLOADS = UploadFolder(OWN_FOLDER.path, SETTINGS.max_uploads_bytes, SETTINGS.uploads_age_s)
atexit.register(OWN_FOLDER.remove)
