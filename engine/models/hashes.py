"""Hashes of files, and the check of the embedded models' files before loading."""

from __future__ import annotations

import hashlib
from pathlib import Path

from engine.errors import ModelError
from engine.sources.catalogue import MODEL_DIR

CHECKSUMS_FILE = "SHA256SUMS"
"""Checksum file in the folder of the embedded models, in ``sha256sum`` format."""


def read_checksums(folder: Path = MODEL_DIR) -> dict[str, str]:
    """Return {path relative to the folder: sha256} for all files of the embedded models."""
    lines = (
        (folder / CHECKSUMS_FILE).read_text("utf-8").splitlines()
        if (folder / CHECKSUMS_FILE).is_file()
        else []
    )
    return {path: digest for digest, path in (line.split(maxsplit=1) for line in lines)}


def check_embedded_files(name: str, folder: Path = MODEL_DIR) -> None:
    """Check that the files of an embedded model are those that were shipped.

    Raises:
        ModelError: a file is missing or differs.
    """
    for path, digest in read_checksums(folder).items():
        if path.partition("/")[0] != name:
            continue
        file = folder / path
        if not file.is_file() or sha256_of(file) != digest:
            raise ModelError(
                "The embedded model {name} is damaged: {file} is not the file that was shipped.",
                name=name,
                file=file.name,
            )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def git_hash_of(path: Path) -> str:
    """Return a file's git blob hash (SHA-1 of its size and bytes), which the hub uses for small files."""
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
