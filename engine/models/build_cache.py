"""Cache of model folders built from local files: one build for each content of the files, complete or not at all."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from engine.errors import Cancelled, ModelError
from engine.models import files
from engine.models.disk_space import disk_errors
from engine.models.shared_work import ByteProgress
from engine.models.subprocess_job import run_job
from engine.sources.build_key import (
    BuildFiles,
    build_folder,
    build_key_file,
    find_build,
    is_complete,
)
from engine.sources.catalogue import SOURCE_FILE
from engine.temporary_folder import TemporaryFolder

_CHUNK_BYTES = 1 << 22
_POLL_S = 0.1
_BUILD_LOCK = threading.Lock()
"""Held during a build, so that a second request for the same model finds it finished."""


@dataclass(frozen=True)
class Build:
    """A model folder that a job makes from local files.

    Attributes:
        name: the model's name.
        sources: the files it is built from.
        job: the module whose job fills the folder.
        order: the job, to which are added ``folder``, the folder to fill, and ``own``, an empty folder for
            temporary files.
        failure: start of the error sentence.
        about: what is stored with the folder.
        check: raises if the folder is not valid.
    """

    name: str
    sources: BuildFiles
    job: str
    order: Mapping[str, Any]
    failure: str
    about: Mapping[str, str]
    check: Callable[[str], object] = files.check_folder


def build_once(
    build: Build, cancelled: threading.Event | None = None, tell: ByteProgress | None = None
) -> tuple[str, str]:
    """Return the folder of a built model and its sum; build it on first use.

    The sum is the sha256 of the source file, or of the list of all sums if there are several.

    Args:
        build: what is built.
        cancelled: the build stops when this is set.
        tell: called with the bytes hashed so far and their total.

    Raises:
        Cancelled: ``cancelled`` was set.
        ModelError: the build failed, or the disk is full. No partial result stays.
    """
    stop, heard = cancelled or threading.Event(), tell or (lambda done, total: None)
    while not _BUILD_LOCK.acquire(timeout=_POLL_S):
        if stop.is_set():
            raise Cancelled
    try:
        heard = partial(_report_progress, stop, heard)
        folder = find_build(build.sources) or _find_or_build(build, heard)
    finally:
        _BUILD_LOCK.release()
    return str(folder.resolve()), folder.name


def _report_progress(stop: threading.Event, tell: ByteProgress, done: int, total: int) -> None:
    if stop.is_set():
        raise Cancelled
    tell(done, total)


def _find_or_build(build: Build, tell: ByteProgress) -> Path:
    """Hash the sources, build the model if this content has no build yet, and write the note."""
    note = _require_key_file(build)
    with disk_errors(build.name, note.parent):
        note.parent.mkdir(parents=True, exist_ok=True)
        size = sum(path.stat().st_size for path in build.sources.values())
        folder = build_folder(_hash_sources(build.sources, tell, size))
        if not is_complete(folder):
            with fill_folder(folder, build.about) as (model_folder, own):
                order = {**build.order, "folder": str(model_folder), "own": str(own)}
                run_job(build.job, order, lambda _: tell(size, size), failure=build.failure)
                build.check(str(model_folder))
        # The note must not name files that were replaced while they were hashed.
        if _require_key_file(build) != note:
            raise ModelError("{name} changed while it was read; try again.", name=build.name)
        note.write_text(f"{folder.name}\n", "ascii")
    return folder


def _require_key_file(build: Build) -> Path:
    try:
        return build_key_file(build.sources)
    except OSError:
        raise ModelError("{name} went away while it was read.", name=build.name) from None


def _hash_sources(sources: BuildFiles, tell: ByteProgress, total: int) -> str:
    done, sums = 0, {}
    for label, path in sorted(sources.items()):
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(_CHUNK_BYTES):
                digest.update(piece)
                done += len(piece)
                tell(done, total)
        sums[label] = digest.hexdigest()
    # A single file keeps its own sha256, which anybody can compare.
    if len(sums) == 1:
        return next(iter(sums.values()))
    lines = "".join(f"{digest}  {label}\n" for label, digest in sums.items())
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


@contextmanager
def fill_folder(folder: Path, about: Mapping[str, str]) -> Iterator[tuple[Path, Path]]:
    """Yield a folder that gets its final name if the block succeeds, and one for temporary files.

    Args:
        folder: the final name.
        about: the model's source, stored in the folder at the end.
    """
    # Next to the target, since a rename works only within one file system.
    with TemporaryFolder("model", folder.parent) as beside:
        model_folder, own = Path(beside) / "model", Path(beside) / "own"
        model_folder.mkdir()
        own.mkdir()
        yield model_folder, own
        # Written last: it marks the folder as complete.
        (model_folder / SOURCE_FILE).write_text(json.dumps(about) + "\n", "utf-8")
        _publish_folder(model_folder, folder)


def _publish_folder(built: Path, folder: Path) -> None:
    """Rename a finished folder to its final name, unless another process was first."""
    if folder.exists() and not is_complete(folder):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        built.rename(folder)
    except OSError:
        if not is_complete(folder):
            raise
