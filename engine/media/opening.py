"""Pictures and sounds from whatever they are given as."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.errors import ParameterError
from engine.media import pixels, waves
from engine.media.examples import PREFIX, example
from engine.media.files import checked, read_file
from engine.media.info import Media
from engine.media.picture import Picture, picture
from engine.media.shelf import KEPT_MEDIA
from engine.media.sound import Sound, sound
from engine.settings import SETTINGS

_BYTES = (bytes, bytearray, memoryview)


def picture_of(value: Any) -> Picture:
    """Return a picture; it is at hand again for a while, see ``media_of``.

    Args:
        value: a path, the bytes of a file, an image of Pillow, a Picture, or ``example:NAME``. Of a file the content
            counts and not the name: PNG, JPEG, WebP, GIF, BMP or TIFF, of one frame.

    Returns:
        It upright, transparent parts on white, scaled to at most 2048 pixels on its longest side.

    Raises:
        ParameterError: it is none of these, too large, damaged, or a path on a public deployment.
    """
    found = _picture(value)
    if found.example is None:
        KEPT_MEDIA.put(found)
    return found


def _picture(value: Any) -> Picture:
    if isinstance(value, Picture):
        return value
    if isinstance(value, str) and value.startswith(PREFIX):
        found = example(value.removeprefix(PREFIX))
        if not isinstance(found, Picture):
            raise ParameterError("image", value, "this example is a sound")
        return found
    most = SETTINGS.max_picture_bytes
    if isinstance(value, str | Path):
        return picture(pixels.decoded(read_file("image", value, most)))
    if isinstance(value, _BYTES):
        return picture(pixels.decoded(checked("image", bytes(value), most)))
    from PIL.Image import Image

    if isinstance(value, Image):
        return picture(pixels.tidied(value))
    raise ParameterError(
        "image",
        type(value).__name__,
        "it must be a path, the bytes of a file, an image of Pillow, or example:NAME",
    )


def sound_of(value: Any) -> Sound:
    """Return a sound; it is at hand again for a while, see ``media_of``.

    Args:
        value: a path, the bytes of a file, (samples, rate), a Sound, or ``example:NAME``. Of a file the content
            counts and not the name: WAV, FLAC, Ogg or MP3.

    Returns:
        One channel at the rate as given.

    Raises:
        ParameterError: it is none of these, too long, damaged, or a path on a public deployment.
    """
    found = _sound(value)
    if found.example is None:
        KEPT_MEDIA.put(found)
    return found


def _sound(value: Any) -> Sound:
    if isinstance(value, Sound):
        return value
    if isinstance(value, str) and value.startswith(PREFIX):
        found = example(value.removeprefix(PREFIX))
        if not isinstance(found, Sound):
            raise ParameterError("audio", value, "this example is a picture")
        return found
    most = SETTINGS.max_sound_bytes
    if isinstance(value, str | Path):
        return sound(*waves.decoded(read_file("audio", value, most)))
    if isinstance(value, _BYTES):
        return sound(*waves.decoded(checked("audio", bytes(value), most)))
    if isinstance(value, tuple | list) and len(value) == 2:
        return sound(*waves.tidied(*value))
    raise ParameterError(
        "audio",
        type(value).__name__,
        "it must be a path, the bytes of a file, (samples, rate), or example:NAME",
    )


def opened(image: Any = None, audio: Any = None) -> Media:
    """Return what a run is given beside its text.

    Args:
        image: as ``picture_of`` takes it, None for none.
        audio: as ``sound_of`` takes it, None for none.

    Raises:
        ParameterError: naming image or audio.
    """
    return Media(
        None if image is None else picture_of(image), None if audio is None else sound_of(audio)
    )
