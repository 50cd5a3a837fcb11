"""The temporary folder of one sandboxed process, limited in size."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from engine.temporary_folder import TemporaryFolder

MAX_FILE_BYTES = 16_000_000
MAX_BYTES = 4 * MAX_FILE_BYTES
MAX_ENTRIES = 5_000
"""Most files and folders together."""


class ScratchFolder(TemporaryFolder):
    """A new temporary folder for one sandboxed process."""

    def __init__(self) -> None:
        super().__init__("method")

    def is_too_full(self, pid: int) -> bool:
        """Return whether it exceeds its limits, counting deleted files that are still open.

        Args:
            pid: the process that writes into it.

        Raises:
            OSError: a folder in it cannot be listed.
        """
        size = count = 0
        held = _count_deleted_bytes(pid)
        folders = [str(self.path)]
        while folders and size + held <= MAX_BYTES and count <= MAX_ENTRIES:
            with (
                suppress(FileNotFoundError, NotADirectoryError),
                os.scandir(folders.pop()) as entries,
            ):
                for entry in entries:
                    count += 1
                    if count > MAX_ENTRIES:
                        break
                    # A link may lead out of the folder, or around in a circle.
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        with suppress(FileNotFoundError):
                            size += entry.stat(follow_symlinks=False).st_size
        return size + held > MAX_BYTES or count > MAX_ENTRIES


def _count_deleted_bytes(pid: int) -> int:
    """Return an upper bound of the bytes in deleted files that a process has open or mapped."""
    held: dict[int, int] = {}
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_text("utf-8", "replace").splitlines():
            if line.endswith(" (deleted)"):
                held[int(line.split()[4])] = MAX_FILE_BYTES
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):
                about = entry.stat()
                if stat.S_ISREG(about.st_mode) and about.st_nlink == 0:
                    held[about.st_ino] = about.st_size
    return sum(held.values())
