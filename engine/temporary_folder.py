"""Temporary folders of this process, removed at its end or, if it was killed, by a later process.

Each folder is locked. The lock ends with the owning process, however it ends, and a later process
removes the unlocked folders. A lock works across containers that share a folder, where a process id
would not.
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

PREFIX = "decoding-playground-"
_NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EINVAL, errno.ENOSYS)


class TemporaryFolder:
    """A new folder, locked until it is removed; as a context manager it yields its path.

    Args:
        kind: purpose, part of its name.
        parent: existing folder to create it in, None for the system's temporary folder.

    Attributes:
        path: its path.
    """

    def __init__(self, kind: str, parent: Path | None = None) -> None:
        parent = parent or Path(tempfile.gettempdir())
        remove_abandoned_folders(parent)
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-", dir=parent))
            try:
                self._lock = _lock_folder(self.path)
            except (BlockingIOError, FileNotFoundError):
                continue  # another process took it for an abandoned one before it was locked
            # Another process may have removed it before it was locked.
            if self.path.exists():
                break
            self._release()
        self._owner = os.getpid()

    def __enter__(self) -> str:
        return str(self.path)

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove it with its content; what cannot be removed is left to ``remove_abandoned_folders``."""
        # A fork inherits the object, and its parent still uses the folder.
        if os.getpid() != self._owner:
            return
        with suppress(OSError):
            _remove_tree(self.path)
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
        self._lock = None


def remove_abandoned_folders(parent: Path) -> None:
    """Remove this user's temporary folders in ``parent`` that no process has locked."""
    with os.scandir(parent) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    for name in names:
        with suppress(OSError):
            if os.lstat(name).st_uid != os.geteuid():
                continue
            lock = _lock_folder(Path(name))
            # Without locks nothing tells an abandoned folder from a used one.
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
    # A link of this name could lead into another folder of the user, which would be emptied. A program
    # that inherited the descriptor would hold the lock after the end of this process.
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
    # A custom method may take its own rights to a folder away, which then cannot be listed or emptied.
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
