"""A picture or a sound as it travels between processes, without loss."""

from __future__ import annotations

import io

from engine.media.examples import PREFIX
from engine.media.picture import Picture
from engine.media.sound import Sound


def packed(medium: Picture | Sound) -> str | bytes:
    """Return what ``picture_of`` and ``sound_of`` open as the same, with the same hash.

    Args:
        medium: a Picture or a Sound.

    Returns:
        The name of an example, else the bytes of a PNG or of a WAV of float samples.
    """
    return file_of(medium) if medium.example is None else f"{PREFIX}{medium.example}"


def file_of(medium: Picture | Sound) -> bytes:
    """Return the bytes of a PNG, or of a WAV of float samples."""
    file = io.BytesIO()
    if isinstance(medium, Picture):
        medium.image.save(file, "PNG")
    else:
        import soundfile

        soundfile.write(file, medium.samples, medium.rate, format="WAV", subtype="FLOAT")
    return file.getvalue()
