"""Resumable downloads: partial large files, stored for the next attempt within a disk limit.

huggingface_hub restarts a file with every attempt. Here a partial file is stored in ``parts`` next to
the blobs of its repository in the hub's cache, named by its announced SHA-256. A later attempt, also
from another process, resumes at its end. It becomes a blob only when all files have their hashes.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub.file_download import http_get
from huggingface_hub.utils import WeakFileLock

from engine.errors import ModelError
from engine.messages import Message
from engine.models.disk_space import DISK_FULL_ERRNOS
from engine.models.hashes import sha256_of

FOLDER = "parts"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class LargeFile:
    """A large file of a repository, as the hub announces it.

    Attributes:
        path: its name in the repository.
        size: in bytes.
        sha256: hash of its bytes.
    """

    path: str
    size: int
    sha256: str

    def __post_init__(self) -> None:
        # The hash becomes a file name, so it must not be a path.
        if not _SHA256.fullmatch(self.sha256):
            raise ModelError("The hub announces no SHA-256 of {path}.", path=self.path)


def complete_downloads(own: Path, large: dict[str, LargeFile], headers: dict[str, str]) -> None:
    """Download files into a repository's blobs, resuming where an earlier attempt ended.

    Args:
        own: the repository's folder in the hub's cache.
        large: address -> file.
        headers: request headers.

    Raises:
        ModelError: the bytes of a file do not have the announced hash; they are removed.
        OSError: the connection broke, and the partial files stay; or the disk is full, and they are removed.
    """
    for folder in (own / "blobs", own / FOLDER):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        for url, file in large.items():
            with _lock_blob(own, file):
                _complete_file(own, file, url, headers)
    except OSError as error:
        # On a full disk nothing stays, since others need the space too.
        if error.errno in DISK_FULL_ERRNOS:
            shutil.rmtree(own / FOLDER, ignore_errors=True)
        raise
    # Last: the limits on partial files do not cover blobs, so only a complete download may leave some.
    for file in large.values():
        with _lock_blob(own, file), suppress(FileNotFoundError):  # another process may be first
            (own / FOLDER / file.sha256).replace(own / "blobs" / file.sha256)


def _lock_blob(own: Path, file: LargeFile) -> AbstractContextManager[object]:
    """Lock a file with huggingface_hub's own lock, so that its downloads in other programs wait too."""
    lock = own.parent / ".locks" / own.name / f"{file.sha256}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    return WeakFileLock(lock)


def _complete_file(own: Path, large: LargeFile, url: str, headers: dict[str, str]) -> None:
    """Download the rest of a file, unless it is among the blobs already, and check its hash."""
    part = own / FOLDER / large.sha256
    if (own / "blobs" / large.sha256).exists():
        return
    with part.open("ab") as file:
        # Too long to be the beginning of this file.
        if file.tell() > large.size:
            file.seek(0)
            file.truncate()
        # A compressed response could not be resumed at a byte offset.
        request_headers = {**headers, "Accept-Encoding": "identity"}
        http_get(
            url, file, resume_size=file.tell(), headers=request_headers, expected_size=large.size
        )
    if sha256_of(part) != large.sha256:
        part.unlink()
        raise ModelError(wrong_hash_message(large.path))


def wrong_hash_message(path: str) -> str:
    """Return the error sentence for a file whose bytes do not have the announced hash."""
    return Message(
        "What came as {path} is not the file that the hub announced: its hash is "
        "another one, so it was removed; try again.",
        path=path,
    )


def folder_bytes(folder: Path, names: Iterable[str] | None = None) -> int:
    """Return the total bytes of a folder's files; files that vanish meanwhile count 0.

    Args:
        folder: the folder.
        names: names of the files to count, None for all.
    """
    # Unlike Path.glob, os.walk does not raise if the folder vanishes.
    _, _, found = next(os.walk(folder), ("", [], []))
    return sum(
        _size_and_time(folder / name)[0]
        for name in (found if names is None else set(found) & {*names})
    )


def remove_old_parts(cache: Path, busy: Iterable[Path], most_bytes: float, age_s: float) -> int:
    """Remove partial files that are too old, then the oldest ones until the rest fits the limit.

    Args:
        cache: the hub's cache folder.
        busy: repository folders being downloaded, whose partial files stay but count.
        most_bytes: most bytes for all partial files.
        age_s: age in seconds since the last write at which a partial file is removed.

    Returns:
        The bytes of the remaining partial files.
    """
    found = [path for own in cache.glob("models--*") for path in _list_files(own / FOLDER)]
    about = {path: _size_and_time(path) for path in found}
    kept, used = {*busy}, sum(size for size, _ in about.values())
    for path, (size, changed) in sorted(about.items(), key=lambda item: item[1][1]):
        own = path.parent.parent
        if own in kept or (used <= most_bytes and time.time() - changed <= age_s):
            continue
        path.unlink(missing_ok=True)
        used -= size
        _remove_empty_folders(own)
    return used


def _list_files(folder: Path) -> list[Path]:
    return [folder / name for name in next(os.walk(folder), ("", [], []))[2]]


def _size_and_time(path: Path) -> tuple[int, float]:
    """Return a file's size and modification time; zeros if it vanished."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0.0
    return found.st_size, found.st_mtime


def _remove_empty_folders(own: Path) -> None:
    """Remove a repository's folder if it is empty."""
    for folder in (own / FOLDER, own):
        with suppress(OSError):
            # Raises an error for a folder that still holds something.
            folder.rmdir()
