"""What has come of large files that are not whole yet: kept for the next try, within a room of its own.

The hub's package starts a file anew with every try. Here it lies in ``parts`` beside the blobs of its
repository, in the hub's own cache and under the SHA-256 that the hub announced, so a later try goes on
from its end, also in another process. It becomes a blob when its bytes have that hash, never before.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from engine.errors import ModelError
from engine.models.hashes import sha256_of

FOLDER = "parts"
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
"""What a disk says that is full, or whose owner has had his share."""
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Large:
    """A large file of a repository, as the hub announces it.

    Attributes:
        path: its name in the repository.
        size: in bytes.
        sha256: of its bytes.
    """

    path: str
    size: int
    sha256: str

    def __post_init__(self) -> None:
        # It becomes the name of a file.
        if not _SHA256.fullmatch(self.sha256):
            raise ModelError(f"The hub announces no SHA-256 of {self.path}.")


def complete(own: Path, large: Large, url: str, headers: dict[str, str]) -> None:
    """Bring a file into a repository's blobs, from where an earlier try ended.

    Args:
        own: the repository's folder in the hub's cache.
        large: the file.
        url: where it is.
        headers: that the hub is asked with.

    Raises:
        ModelError: other bytes came than were announced; they are gone.
        OSError: no more came, and what did is kept; or the disk is full, and nothing is.
    """
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import WeakFileLock

    blob, part = own / "blobs" / large.sha256, own / FOLDER / large.sha256
    # The package's own lock of the blob: whoever else wants it waits, and finds it.
    lock = own.parent / ".locks" / own.name / f"{large.sha256}.lock"
    for path in (blob, part, lock):
        path.parent.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if blob.exists():
            return
        try:
            with part.open("ab") as file:
                if file.tell() > large.size:
                    file.seek(0)
                    file.truncate()
                # Bytes of a packed answer could not be counted from.
                asked = {**headers, "Accept-Encoding": "identity"}
                size = large.size
                http_get(url, file, resume_size=file.tell(), headers=asked, expected_size=size)
        except OSError as error:
            if error.errno in NO_ROOM:
                part.unlink(missing_ok=True)
            raise
        if sha256_of(part) != large.sha256:
            part.unlink()
            raise ModelError(wrong_hash(large.path))
        part.replace(blob)


def wrong_hash(path: str) -> str:
    """Return the sentence about a file whose bytes are not those that the hub announced."""
    return (
        f"What came as {path} is not the file that the hub announced: its hash is another one, so it"
        " was removed; try again."
    )


def size_of(folder: Path, names: Iterable[str] | None = None) -> int:
    """Return the bytes of the files of a folder; one that goes away meanwhile counts nothing.

    Args:
        folder: where they are.
        names: of those that count, None for all.
    """
    # Unlike Path.glob, it goes on where a folder goes away.
    _, _, found = next(os.walk(folder), ("", [], []))
    return sum(
        _stat(folder / name)[0] for name in (found if names is None else set(found) & {*names})
    )


def only_parts(own: Path) -> bool:
    """Return whether nothing of a repository is on this machine but parts, or nothing at all."""
    folders, files = next(os.walk(own), ("", [], []))[1:]
    return not files and set(folders) <= {FOLDER}


def keep_only_parts(own: Path) -> None:
    """Remove all of a repository from this machine but its parts."""
    for folder in next(os.walk(own), ("", [], []))[1]:
        if folder != FOLDER:
            shutil.rmtree(own / folder, ignore_errors=True)
    _remove_empty(own)


def sweep(cache: Path, busy: Iterable[Path], most_bytes: float, age_s: float) -> int:
    """Remove parts that nobody has gone on with for long, then the oldest until the rest has room.

    Args:
        cache: the hub's own.
        busy: folders of repositories that are being fetched, whose parts stay and count.
        most_bytes: that all parts may have.
        age_s: a part goes when nothing was added to it for so long.

    Returns:
        The bytes of those that are left.
    """
    found = [path for own in cache.glob("models--*") for path in _files(own / FOLDER)]
    about = {path: _stat(path) for path in found}
    kept, used = {*busy}, sum(size for size, _ in about.values())
    for path, (size, changed) in sorted(about.items(), key=lambda item: item[1][1]):
        own = path.parent.parent
        if own in kept or (used <= most_bytes and time.time() - changed <= age_s):
            continue
        path.unlink(missing_ok=True)
        used -= size
        _remove_empty(own)
    return used


def _files(folder: Path) -> list[Path]:
    return [folder / name for name in next(os.walk(folder), ("", [], []))[2]]


def _stat(path: Path) -> tuple[int, float]:
    """Return the bytes of a file and when it was written to."""
    try:
        found = path.stat()
    except OSError:
        return 0, 0.0
    return found.st_size, found.st_mtime


def _remove_empty(own: Path) -> None:
    """Remove a repository's folder where nothing is in it any more."""
    for folder in (own / FOLDER, own):
        with suppress(OSError):
            folder.rmdir()
