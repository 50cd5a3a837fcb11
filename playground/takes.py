"""What models are given beside text, as the page is told: which take a picture or a sound, and the examples."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.media import MediaExample, list_examples
from engine.models.catalogue import CatalogueEntry
from engine.settings import SETTINGS
from playground.media import KINDS, LIMITS

_TYPES = {
    "image": ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff"],
    "audio": ["audio/wav", "audio/x-wav", "audio/flac", "audio/ogg", "audio/mpeg", ".flac"],
}
"""What a browser's chooser of files offers; the server looks at what a file holds."""


def declared(entry: CatalogueEntry) -> dict[str, Any]:
    """Return what a model of the catalogue takes beside text: ``takes``, some of KINDS, and ``needs``, one or None."""
    return {"takes": [entry.needs] if entry.needs else [], "needs": entry.needs}


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
        "src": _address(one.name, one.file),
    }


@lru_cache(maxsize=64)
def _address(name: str, file: Path) -> str:
    """Return where a page fetches an example; another place whenever the file changes."""
    return f"./media/example/{name}?{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
