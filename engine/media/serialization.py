"""Lossless serialization of pictures and sounds for transfer between processes."""

from __future__ import annotations

import io

from engine.media.examples import PREFIX
from engine.media.picture import Picture
from engine.media.sound import Sound


def packed(medium: Picture | Sound) -> str | bytes:
    """Serialize a medium; ``picture_of`` and ``sound_of`` restore it with the same hash.

    Args:
        medium: a Picture or a Sound.

    Returns:
        ``example:NAME`` for an example, else the bytes of a PNG or of a WAV with float samples.
    """
    return file_of(medium) if medium.example is None else f"{PREFIX}{medium.example}"


def file_of(medium: Picture | Sound) -> bytes:
    """Return a picture as the bytes of a PNG, a sound as those of a WAV with float samples."""
    file = io.BytesIO()
    if isinstance(medium, Picture):
        medium.image.save(file, "PNG")
    else:
        import soundfile

        soundfile.write(file, medium.samples, medium.rate, format="WAV", subtype="FLOAT")
    return file.getvalue()
