"""From a GGUF file of this machine to a folder of the models' cache."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.models import files
from engine.models.converting import check_can_convert, convert
from engine.models.gguf_names import converted, sources_of
from engine.models.hub import Tell
from engine.models.making import made_once


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
    if converted(name) is None:
        check_can_convert(name)
    return made_once(name, sources_of(name), partial(_convert, name), cancelled, tell)


def _convert(name: str, made: Path, own: Path, tell: Callable[[], None]) -> dict[str, str]:
    # Alone in its folder: what lies beside the file, such as another tokenizer, is not the file's.
    link = own / Path(name).name
    link.symlink_to(Path(name).resolve())
    convert(link, made, tell, dtype="float32")
    return {"gguf": name}
