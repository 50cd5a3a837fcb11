"""From a GGUF file of this machine to a folder of the models' cache: once for each content of the file."""

from __future__ import annotations

import hashlib
import json
import tempfile
import threading
from functools import partial
from pathlib import Path

from engine.errors import Cancelled, ModelError
from engine.models import files
from engine.models.bringing import no_room, take_place, tidy
from engine.models.catalogue import BROUGHT_FROM
from engine.models.converting import check_can_convert, convert
from engine.models.gguf_names import converted, folder_of, is_gguf, note_of
from engine.models.hub import Tell

_PIECE = 1 << 22
_POLL_S = 0.1
_ONE = threading.Lock()
"""Held while a file is converted: whoever wants the same one finds it made."""


def fetch_gguf(
    name: str, cancelled: threading.Event | None = None, tell: Tell | None = None
) -> tuple[str, str]:
    """Return the folder and the sha256 of a GGUF file's model, which is converted if it was not before.

    The weights are kept as float32, which is exactly what transformers reads from the file.

    Args:
        name: the file's absolute path.
        cancelled: gives up when set.
        tell: hears how many bytes of the file are read.

    Raises:
        Cancelled: it was cancelled meanwhile.
        ModelError: it is not allowed, cannot be read, or there is no room; nothing of it is left.
    """
    files.check_name(name)
    stop, heard = cancelled or threading.Event(), tell or (lambda done, total: None)
    while not _ONE.acquire(timeout=_POLL_S):
        if stop.is_set():
            raise Cancelled
    try:
        folder = converted(name) or _made(name, partial(_told, stop, heard))
    finally:
        _ONE.release()
    return str(folder.resolve()), folder.name


def _told(stop: threading.Event, tell: Tell, done: int, total: int) -> None:
    if stop.is_set():
        raise Cancelled
    tell(done, total)


def _made(name: str, tell: Tell) -> Path:
    """Read a file, convert it where nothing was made of the same content, and note whose it is."""
    check_can_convert(name)
    note = _noted(name)
    with no_room(name, note.parent):
        note.parent.mkdir(parents=True, exist_ok=True)
        sha256 = _sum(name, tell)
        folder = folder_of(sha256)
        if not (folder / BROUGHT_FROM).is_file():
            tidy(folder)
            _convert(name, folder, tell)
        if _noted(name) != note:
            raise ModelError(f"{name} changed while it was read; try again.")
        note.write_text(f"{sha256}\n", "ascii")
    return folder


def _noted(name: str) -> Path:
    if not is_gguf(name):
        raise ModelError(f"{name} went away while it was read.")
    return note_of(name)


def _sum(name: str, tell: Tell) -> str:
    path, digest, done = Path(name), hashlib.sha256(), 0
    total = path.stat().st_size
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            done += len(piece)
            tell(done, total)
    return digest.hexdigest()


def _convert(name: str, folder: Path, tell: Tell) -> None:
    size = Path(name).stat().st_size
    with tempfile.TemporaryDirectory(
        prefix=f".{folder.name}.", dir=folder.parent, ignore_cleanup_errors=True
    ) as beside:
        made, alone = Path(beside) / "model", Path(beside) / "file"
        made.mkdir()
        alone.mkdir()
        # Alone in its folder: what lies beside the file, such as another tokenizer, is not the file's.
        link = alone / Path(name).name
        link.symlink_to(Path(name).resolve())
        convert(link, made, partial(tell, size, size), dtype="float32")
        files.check_folder(str(made))
        (made / BROUGHT_FROM).write_text(json.dumps({"gguf": name}) + "\n", "utf-8")
        take_place(made, folder)
