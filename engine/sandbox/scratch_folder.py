"""The temporary folder of one sandboxed process: locked, limited in size, then removed.

The lock ends with the owning process, however it ends; the next owner removes unlocked folders. A
lock works across containers that share a folder, where a process id would not.
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
"""Most files and folders together."""
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS)


class ScratchFolder:
    """A new temporary folder, locked until it is removed.

    Attributes:
        path: its path.
    """

    def __init__(self) -> None:
        remove_abandoned_folders()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            try:
                self._lock = _lock_folder(self.path)
            except (BlockingIOError, FileNotFoundError):
                continue  # another process took it for an abandoned one before it was locked
            # Another process may have removed it before it was locked.
            if self.path.exists():
                return
            self._release()

    def remove(self) -> None:
        """Remove it with its content; what cannot be removed is left to ``remove_abandoned_folders``."""
        with suppress(OSError):
            _remove_tree(self.path)
        self._release()

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


def remove_abandoned_folders() -> None:
    """Remove this user's folders that no process has locked."""
    with os.scandir(tempfile.gettempdir()) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    for name in names:
        with suppress(OSError):
            if os.lstat(name).st_uid != os.geteuid():
                continue
            lock = _lock_folder(Path(name))
            if lock is None:
                continue
            try:
                _remove_tree(Path(name))
            finally:
                os.close(lock)


def _lock_folder(folder: Path) -> int | None:
    """Lock a folder; return its descriptor, None if the file system has no locks.

    Raises:
        BlockingIOError: another process has locked it.
        OSError: it does not exist, or is not a folder.
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


def _remove_tree(top: Path) -> None:
    """Remove an unused folder of any depth and with any modes."""
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
                    # Moved to the top: recursion, as in shutil.rmtree, fails on very deep folders.
                    below.chmod(0o700)
                    below.rename(top / secrets.token_hex(16))
                else:
                    below.unlink()
            path.rmdir()
    top.rmdir()


def _is_folder(path: Path) -> bool:
    return stat.S_ISDIR(os.lstat(path).st_mode)


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
