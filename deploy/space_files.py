"""The files of a Space: a commit of this repository without what a Space does not need."""

from __future__ import annotations

import hashlib
import re
import subprocess
import tarfile
from collections.abc import Iterable
from pathlib import Path

from engine.export.hub_upload import PushError

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = (
    ".ci",
    ".dockerignore",
    ".gitignore",
    "Makefile",
    "benchmarks",
    "biome.json",
    "decoding_playground",
    "deploy",
    "docs/images",
    "package-lock.json",
    "package.json",
    "requirements-cluster.txt",
    "requirements-dev.lock",
    "requirements-dev.txt",
    "tests",
    "training",
    "tsconfig.json",
)
"""Files and folders of the repository that no Space needs. A Space has the pictures of its README."""
README = "README.md"
_PICTURE = re.compile(r"docs/images/[\w.-]+")


def find_commit(root: Path, name: str) -> str:
    """Return the full hash of a commit.

    Raises:
        PushError: `root` is no git repository, or has no such commit.
    """
    try:
        found = _git(
            root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}"
        )
    except (OSError, subprocess.CalledProcessError):
        raise PushError(
            "{name} is no commit of the repository in {root}.", name=name, root=root
        ) from None
    return found.decode().strip()


def has_uncommitted_changes(root: Path) -> bool:
    """Return True if the working tree has changes that no commit has."""
    return bool(_git(root, "status", "--porcelain"))


def write_files(root: Path, commit: str, folder: Path, pictures_at: str) -> dict[str, Path]:
    """Write the files that a Space needs into a folder.

    Args:
        root: the repository.
        commit: the commit that they are taken from; the working tree is not read.
        folder: an existing, empty folder.
        pictures_at: the address below which the Space serves its files, ending in a slash. The Hub
            shows pictures of a README, and its thumbnail, only by an absolute address.

    Returns:
        path in the Space -> file in `folder`, sorted.
    """
    left_out = [f":(exclude){path}" for path in LEFT_OUT]
    command = ["git", "archive", "--format=tar", commit, "--", ".", *left_out]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE) as archive:
        assert archive.stdout is not None
        with tarfile.open(fileobj=archive.stdout, mode="r|") as files:
            files.extractall(folder, filter="data")
    readme = (folder / README).read_text("utf-8")
    for picture in sorted(set(_PICTURE.findall(readme))):
        target = folder / picture
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_git(root, "cat-file", "blob", f"{commit}:{picture}"))
    (folder / README).write_text(
        _PICTURE.sub(lambda found: pictures_at + found[0], readme), "utf-8"
    )
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path for path in found}


def file_hashes(path: Path) -> tuple[str, str]:
    """Return the two hashes of which the Hub knows a file by one: git's blob hash, and SHA-256."""
    data = path.read_bytes()
    blob = hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False)
    return blob.hexdigest(), hashlib.sha256(data).hexdigest()


def total_size(files: Iterable[Path]) -> float:
    """Return the size of files together, in MB."""
    return sum(path.stat().st_size for path in files) / 1e6


def _git(root: Path, *arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True).stdout
