"""What files have as hashes; the embedded models' are held against theirs before they are read."""

from __future__ import annotations

import hashlib
from pathlib import Path

from engine.errors import ModelError
from engine.models.catalogue import MODEL_DIR

SUMS = "SHA256SUMS"
"""Beside the models' folders, as ``sha256sum`` writes it."""


def sums(folder: Path = MODEL_DIR) -> dict[str, str]:
    """Return {path relative to the folder: sha256} of all files of embedded models."""
    lines = (folder / SUMS).read_text("utf-8").splitlines() if (folder / SUMS).is_file() else []
    return {path: digest for digest, path in (line.split(maxsplit=1) for line in lines)}


def check_files(name: str, folder: Path = MODEL_DIR) -> None:
    """Check the files of an embedded model.

    Raises:
        ModelError: one of them is not what was shipped, or is not there.
    """
    for path, digest in sums(folder).items():
        if path.partition("/")[0] != name:
            continue
        file = folder / path
        if not file.is_file() or sha256_of(file) != digest:
            raise ModelError(
                f"The embedded model {name} is damaged: {file.name} is not the file that was shipped."
            )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def git_hash_of(path: Path) -> str:
    """Return what git, and so the hub, calls a file that is no large one: a SHA-1 of its size and bytes."""
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
