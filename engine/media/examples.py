"""Built-in example pictures and sounds in ``assets/media``, opened at the first use.

Every ``*.png``, ``*.flac`` and ``*.wav`` there is an example, named by its file stem.
``examples.json`` gives titles and alternative texts: ``{"scene-1": {"title": "…", "alt": "…"}}``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.errors import ParameterError
from engine.media import picture_decoder, sound_decoder
from engine.media.picture import Picture, make_picture
from engine.media.sound import Sound, make_sound
from engine.messages import Message
from engine.trace.media_checks import EXAMPLE_NAME

EXAMPLES_FOLDER = Path(__file__).resolve().parents[2] / "assets" / "media"
EXAMPLE_PREFIX = "example:"
_TEXTS_FILE = "examples.json"
_KINDS = {".png": "image", ".flac": "audio", ".wav": "audio"}


@dataclass(frozen=True)
class MediaExample:
    """A built-in example picture or sound."""

    name: str
    kind: str
    """image or audio, like ``MediaInfo.kind``."""
    file: Path
    title: str
    """English title; the name if examples.json has none."""
    alt: str
    """English alternative text; empty if examples.json has none."""


def list_examples(folder: Path = EXAMPLES_FOLDER) -> tuple[MediaExample, ...]:
    """Return all examples in natural order; empty if the folder is empty or missing.

    Args:
        folder: folder of the examples.
    """
    texts = _read_texts(folder)
    found = []
    for file in sorted(folder.glob("*"), key=_natural_sort_key):
        if file.suffix in _KINDS and re.fullmatch(EXAMPLE_NAME, file.stem) and file.is_file():
            said = texts.get(file.stem, {})
            title, alt = said.get("title", file.stem), said.get("alt", "")
            found.append(MediaExample(file.stem, _KINDS[file.suffix], file, title, alt))
    return tuple(found)


def load_example(name: str, folder: Path = EXAMPLES_FOLDER) -> Picture | Sound:
    """Open an example by its name.

    Raises:
        ParameterError: there is no example with this name.
    """
    known = {one.name: one for one in list_examples(folder)}
    if name not in known:
        there = (
            Message("the examples are {names}", names=", ".join(known))
            if known
            else "no examples came along"
        )
        raise ParameterError("example", name, there)
    return _open_example(known[name].file)


@lru_cache(maxsize=32)
def _open_example(file: Path) -> Picture | Sound:
    data = file.read_bytes()
    if _KINDS[file.suffix] == "image":
        return make_picture(picture_decoder.decode_picture(data), file.stem)
    return make_sound(*sound_decoder.decode_sound(data), file.stem)


def _read_texts(folder: Path) -> dict[str, dict[str, str]]:
    path = folder / _TEXTS_FILE
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def _natural_sort_key(file: Path) -> tuple[str, int, str]:
    """Sort key that puts scene-10 after scene-9."""
    words, number = re.fullmatch(r"(.*?)(\d*)", file.stem, re.DOTALL).groups()  # type: ignore[union-attr]
    return words, int(number or 0), file.name
