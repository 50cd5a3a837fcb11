"""Cache of model folders built from local files: one build for each content of the files."""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.errors import Cancelled, ModelError
from engine.models import files
from engine.models.hub import ByteProgress
from engine.models.install import disk_errors, publish_folder, remove_leftovers
from engine.sources.build_key import BuildFiles, build_folder, build_key_file, find_build
from engine.sources.catalogue import SOURCE_FILE

_CHUNK_BYTES = 1 << 22
_POLL_S = 0.1
_BUILD_LOCK = threading.Lock()
"""Held during a build, so that a second request for the same model finds it finished."""

Builder = Callable[[Path, Path, Callable[[], None]], dict[str, str]]
"""Fills the first folder with a model and returns its sources; the second folder is for temporary files.

It calls its third argument regularly; that raises Cancelled when nobody waits any more."""


def build_once(
    name: str,
    sources: BuildFiles,
    make: Builder,
    cancelled: threading.Event | None = None,
    tell: ByteProgress | None = None,
    check: Callable[[str], object] = files.check_folder,
) -> tuple[str, str]:
    """Return the folder of a built model and its sum; build it on first use.

    The sum is the sha256 of the source file, or of the list of all sums if there are several.

    Args:
        name: the model's name.
        sources: the files it is built from.
        make: builds it.
        cancelled: the build stops when this is set.
        tell: called with the bytes hashed so far and their total.
        check: raises if the built folder is not valid.

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
        folder = find_build(sources) or _find_or_build(
            name, sources, partial(_build_atomically, check, make), heard
        )
    finally:
        _BUILD_LOCK.release()
    return str(folder.resolve()), folder.name


def _report_progress(stop: threading.Event, tell: ByteProgress, done: int, total: int) -> None:
    if stop.is_set():
        raise Cancelled
    tell(done, total)


def _find_or_build(
    name: str,
    sources: BuildFiles,
    make: Callable[[Path, Callable[[], None]], None],
    tell: ByteProgress,
) -> Path:
    """Hash the sources, build the model if this content has no build yet, and write the note."""
    note = _require_key_file(name, sources)
    with disk_errors(name, note.parent):
        note.parent.mkdir(parents=True, exist_ok=True)
        size = sum(path.stat().st_size for path in sources.values())
        folder = build_folder(_hash_sources(sources, tell, size))
        if not (folder / SOURCE_FILE).is_file():
            remove_leftovers(folder)
            make(folder, partial(tell, size, size))
        # The note must not name files that were replaced while they were hashed.
        if _require_key_file(name, sources) != note:
            raise ModelError("{name} changed while it was read; try again.", name=name)
        note.write_text(f"{folder.name}\n", "ascii")
    return folder


def _require_key_file(name: str, sources: BuildFiles) -> Path:
    try:
        return build_key_file(sources)
    except OSError:
        raise ModelError("{name} went away while it was read.", name=name) from None


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
    if len(sums) == 1:
        return next(iter(sums.values()))
    lines = "".join(f"{digest}  {label}\n" for label, digest in sums.items())
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _build_atomically(
    check: Callable[[str], object], make: Builder, folder: Path, tell: Callable[[], None]
) -> None:
    # Next to the target, since a rename works only within one file system.
    with tempfile.TemporaryDirectory(
        prefix=f".{folder.name}.", dir=folder.parent, ignore_cleanup_errors=True
    ) as beside:
        made, own = Path(beside) / "model", Path(beside) / "own"
        made.mkdir()
        own.mkdir()
        where = make(made, own, tell)
        check(str(made))
        (made / SOURCE_FILE).write_text(json.dumps(where) + "\n", "utf-8")
        publish_folder(made, folder)
