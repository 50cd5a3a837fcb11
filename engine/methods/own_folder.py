"""The folder of one custom method's process: nobody else's, bounded, and gone afterwards, whatever was done in it.

Its owner holds a lock on it, which ends with him however he ends; whoever makes the next one removes those that
nobody holds any more. A lock holds across containers that share a folder, where a process id would not.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

PREFIX = "decoding-playground-method-"
MAX_FILE_BYTES = 16_000_000
MAX_BYTES = 4 * MAX_FILE_BYTES
MAX_ENTRIES = 5_000
"""Files and folders together."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS)


class OwnFolder:
    """A new folder below the one for temporary files, locked until it is removed.

    Attributes:
        path: of it.
    """

    def __init__(self) -> None:
        remove_abandoned()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            try:
                self._lock = _locked(self.path)
            except (BlockingIOError, FileNotFoundError):
                continue  # somebody took it for one that nobody holds, before it was held
            if self.path.exists():
                return
            self._release()

    def remove(self) -> None:
        """Remove it with all that is in it; what cannot be removed now is left to whoever makes the next one."""
        with suppress(OSError):
            _remove(self.path)
        self._release()

    def is_too_full(self, pid: int) -> bool:
        """Return whether there is more in it than a method may write, what it has deleted and still holds included.

        Args:
            pid: of the process that writes into it.

        Raises:
            OSError: a folder in it cannot be looked into.
        """
        size = count = 0
        held = _deleted(pid)
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
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    else:
                        with suppress(FileNotFoundError):
                            size += entry.stat(follow_symlinks=False).st_size
        return size + held > MAX_BYTES or count > MAX_ENTRIES

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None


def remove_abandoned() -> None:
    """Remove the folders of this user's that no process holds any more."""
    with os.scandir(tempfile.gettempdir()) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    for name in names:
        with suppress(OSError):
            if os.lstat(name).st_uid != os.geteuid():
                continue
            lock = _locked(Path(name))
            if lock is None:
                continue
            try:
                _remove(Path(name))
            finally:
                os.close(lock)


def _locked(folder: Path) -> int | None:
    """Return the descriptor by which a folder is held, None where its file system knows no locks.

    Raises:
        BlockingIOError: somebody else holds it.
        OSError: it is not there, or no folder.
    """
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(held)
        if error.errno in _NO_LOCKS:
            return None
        raise
    return held


def _remove(top: Path) -> None:
    """Remove a folder that nobody writes into any more, however deep it is and whatever its modes are."""
    top.chmod(0o700)
    while names := os.listdir(top):
        for name in names:
            path = top / name
            if not _is_folder(path):
                path.unlink()
                continue
            path.chmod(0o700)
            for inner in os.listdir(path):
                below = path / inner
                if _is_folder(below):
                    # To the top, so that no path grows and nothing calls itself.
                    below.chmod(0o700)
                    below.rename(top / secrets.token_hex(16))
                else:
                    below.unlink()
            path.rmdir()
    top.rmdir()


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)


def _deleted(pid: int) -> int:
    """Return the bytes of files that a process has deleted and still holds open or in memory, at most."""
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
