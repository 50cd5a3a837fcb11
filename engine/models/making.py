"""From files of this machine to a folder of the models' cache: once for each content of the files."""

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
from engine.models.bringing import no_room, take_place, tidy
from engine.models.catalogue import BROUGHT_FROM
from engine.models.hub import Tell
from engine.models.made_names import Sources, folder_of, made_of, note_of

_PIECE = 1 << 22
_POLL_S = 0.1
_ONE = threading.Lock()
"""Held while a model is made: whoever wants the same one finds it made."""

Make = Callable[[Path, Path, Callable[[], None]], dict[str, str]]
"""Fills the first folder with a model and returns what it was made of; the second is empty, for its own use.

What it is given last is called now and then while it goes on, and raises when nobody waits any more."""


def made_once(
    name: str,
    sources: Sources,
    make: Make,
    cancelled: threading.Event | None = None,
    tell: Tell | None = None,
    check: Callable[[str], object] = files.check_folder,
) -> tuple[str, str]:
    """Return the folder of a model and its sum; it is made if it was not before.

    The sum is the file's own sha256 where it is made of one file, else that of the list of all their sums.

    Args:
        name: what the model is called.
        sources: what it is made of.
        make: makes it.
        cancelled: gives up when set.
        tell: hears how many bytes of the files are read.
        check: refuses a folder that is not what was to be made.

    Raises:
        Cancelled: it was cancelled meanwhile.
        ModelError: it cannot be made, or there is no room; nothing of it is left.
    """
    stop, heard = cancelled or threading.Event(), tell or (lambda done, total: None)
    while not _ONE.acquire(timeout=_POLL_S):
        if stop.is_set():
            raise Cancelled
    try:
        heard = partial(_told, stop, heard)
        folder = made_of(sources) or _made(name, sources, partial(_make, check, make), heard)
    finally:
        _ONE.release()
    return str(folder.resolve()), folder.name


def _told(stop: threading.Event, tell: Tell, done: int, total: int) -> None:
    if stop.is_set():
        raise Cancelled
    tell(done, total)


def _made(
    name: str, sources: Sources, make: Callable[[Path, Callable[[], None]], None], tell: Tell
) -> Path:
    """Read the files, make a model where none was made of the same content, and note whose it is."""
    note = _noted(name, sources)
    with no_room(name, note.parent):
        note.parent.mkdir(parents=True, exist_ok=True)
        size = sum(path.stat().st_size for path in sources.values())
        folder = folder_of(_sum(sources, tell, size))
        if not (folder / BROUGHT_FROM).is_file():
            tidy(folder)
            make(folder, partial(tell, size, size))
        if _noted(name, sources) != note:
            raise ModelError(f"{name} changed while it was read; try again.")
        note.write_text(f"{folder.name}\n", "ascii")
    return folder


def _noted(name: str, sources: Sources) -> Path:
    try:
        return note_of(sources)
    except OSError:
        raise ModelError(f"{name} went away while it was read.") from None


def _sum(sources: Sources, tell: Tell, total: int) -> str:
    done, sums = 0, {}
    for label, path in sorted(sources.items()):
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                done += len(piece)
                tell(done, total)
        sums[label] = digest.hexdigest()
    if len(sums) == 1:
        return next(iter(sums.values()))
    lines = "".join(f"{digest}  {label}\n" for label, digest in sums.items())
    return hashlib.sha256(lines.encode("utf-8", "surrogateescape")).hexdigest()


def _make(
    check: Callable[[str], object], make: Make, folder: Path, tell: Callable[[], None]
) -> None:
    with tempfile.TemporaryDirectory(
        prefix=f".{folder.name}.", dir=folder.parent, ignore_cleanup_errors=True
    ) as beside:
        made, own = Path(beside) / "model", Path(beside) / "own"
        made.mkdir()
        own.mkdir()
        where = make(made, own, tell)
        check(str(made))
        (made / BROUGHT_FROM).write_text(json.dumps(where) + "\n", "utf-8")
        take_place(made, folder)
