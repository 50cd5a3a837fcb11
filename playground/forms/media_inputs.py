"""Media inputs in the page's declaration: models with picture or sound, limits and examples."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.media import MediaExample, list_examples
from engine.models.readers import read_speech_choices
from engine.settings import SETTINGS
from engine.sources.catalogue import CatalogueEntry
from playground.forms.visitor_media import KINDS, LIMITS

_TYPES = {
    "image": ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp", "image/tiff"],
    "audio": ["audio/wav", "audio/x-wav", "audio/flac", "audio/ogg", "audio/mpeg", ".flac"],
}
"""File types that the browser's file chooser offers. The server checks the content instead."""


def model_inputs(entry: CatalogueEntry) -> dict[str, Any]:
    """Return the media inputs of a catalogue model.

    Returns:
        ``takes``, some of KINDS; ``needs``, one of them or None; and ``speech``, its speech
        settings (see ``SpeechChoices``), None if the model is not on this machine or takes no
        sound.
    """
    takes = [entry.needs] if entry.needs else []
    hears = entry.embedded and entry.needs == "audio"
    speech = asdict(read_speech_choices(str(entry.folder))) if hears else None
    return {"takes": takes, "needs": entry.needs, "speech": speech}


def media_options() -> dict[str, Any]:
    """Return the limits and file types for uploads, and the built-in examples with their URLs."""
    seconds = {"image": {}, "audio": {"seconds": SETTINGS.max_sound_s}}
    found = list_examples()
    return {
        "limits": {
            kind: {"bytes": LIMITS[kind], "types": _TYPES[kind], **seconds[kind]} for kind in KINDS
        },
        "examples": {
            kind: [_example_to_dict(one) for one in found if one.kind == kind] for kind in KINDS
        },
    }


def _example_to_dict(one: MediaExample) -> dict[str, str]:
    return {
        "name": one.name,
        "title": one.title,
        "alt": one.alt,
        "src": example_url(one),
    }


def example_url(example: MediaExample) -> str:
    """Return the URL of an example, relative to the page."""
    return _versioned_url(example.name, example.file)


@lru_cache(maxsize=64)
def _versioned_url(name: str, file: Path) -> str:
    """Return an example's URL; its digest changes with the file."""
    return f"./media/example/{name}?{hashlib.sha256(file.read_bytes()).hexdigest()[:12]}"
