"""Lossless serialization of pictures and sounds for transfer between processes."""

from __future__ import annotations

import io

from engine.media.examples import EXAMPLE_PREFIX
from engine.media.picture import Picture
from engine.media.sound import Sound


def serialize_medium(medium: Picture | Sound) -> str | bytes:
    """Serialize a medium; ``to_picture`` and ``to_sound`` restore it with the same hash.

    Args:
        medium: a Picture or a Sound.

    Returns:
        ``example:NAME`` for an example, else the bytes of a PNG or of a WAV with float samples.
    """
    return to_file_bytes(medium) if medium.example is None else f"{EXAMPLE_PREFIX}{medium.example}"


def to_file_bytes(medium: Picture | Sound) -> bytes:
    """Return a picture as the bytes of a PNG, a sound as those of a WAV with float samples."""
    file = io.BytesIO()
    if isinstance(medium, Picture):
        medium.image.save(file, "PNG")
    else:
        import soundfile

        soundfile.write(file, medium.samples, medium.rate, format="WAV", subtype="FLOAT")
    return file.getvalue()
