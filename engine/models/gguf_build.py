"""Build a model folder from a local GGUF file, cached by the file's content."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engine.models.build_cache import build_once
from engine.models.gguf_conversion import check_can_convert, convert_gguf
from engine.models.hub import ByteProgress
from engine.sources.source import Gguf


def ensure_gguf_converted(
    source: Gguf, cancelled: threading.Event | None = None, tell: ByteProgress | None = None
) -> tuple[str, str]:
    """Return the folder and sha256 of a GGUF file's model; convert it on first use.

    The weights are float32, exactly what transformers reads. bfloat16 would round files of 8 bits and more.

    Args:
        source: the file.
        cancelled: the build stops when this is set.
        tell: called with the bytes hashed so far and the file's size.

    Raises:
        Cancelled: ``cancelled`` was set.
        ModelError: the file cannot be read, or the disk is full. No partial result stays.
    """
    name = source.name
    if source.folder() is None:
        check_can_convert(name)
    return build_once(name, source.build_files(), partial(_build_converted, name), cancelled, tell)


def _build_converted(name: str, made: Path, own: Path, tell: Callable[[], None]) -> dict[str, str]:
    # Linked into an empty folder: a tokenizer next to the file would win over the file's own.
    link = own / Path(name).name
    link.symlink_to(Path(name).resolve())
    convert_gguf(link, made, tell, dtype="float32")
    return {"gguf": name}
