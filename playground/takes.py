"""What models are given beside text, as the page is told: which take a picture or a sound, and the examples."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.media import MediaExample, list_examples
from engine.models.catalogue import CatalogueEntry
from engine.models.readers import speech_in
from engine.settings import SETTINGS
from playground.media import KINDS, LIMITS

_TYPES = {
    "image": ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff"],
    "audio": ["audio/wav", "audio/x-wav", "audio/flac", "audio/ogg", "audio/mpeg", ".flac"],
}
"""What a browser's chooser of files offers; the server looks at what a file holds."""


def declared(entry: CatalogueEntry) -> dict[str, Any]:
    """Return what a model of the catalogue takes beside text.

    Returns:
        ``takes``, some of KINDS; ``needs``, one or None; and ``speech``, what it can be told of a sound (see
        ``SpeechChoices``), None where it is not at hand or does not listen.
    """
    takes = [entry.needs] if entry.needs else []
    hears = entry.embedded and entry.needs == "audio"
    speech = asdict(speech_in(str(entry.folder))) if hears else None
    return {"takes": takes, "needs": entry.needs, "speech": speech}


def offered_media() -> dict[str, Any]:
    """Return what may be sent, and the examples that come along, each with its address and what it is."""
    seconds = {"image": {}, "audio": {"seconds": SETTINGS.max_sound_s}}
    found = list_examples()
    return {
        "limits": {
            kind: {"bytes": LIMITS[kind], "types": _TYPES[kind], **seconds[kind]} for kind in KINDS
        },
        "examples": {kind: [_example(one) for one in found if one.kind == kind] for kind in KINDS},
    }


def _example(one: MediaExample) -> dict[str, str]:
    return {
        "name": one.name,
        "title": one.title,
        "alt": one.alt,
        "src": address_of(one),
    }


def address_of(example: MediaExample) -> str:
    """Return where a page fetches an example."""
    return _address(example.name, example.file)


@lru_cache(maxsize=64)
def _address(name: str, file: Path) -> str:
    """Return its address; another one whenever the file changes."""
    return f"./media/example/{name}?{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
