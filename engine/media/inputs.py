"""Conversion of paths, bytes, arrays and images to pictures and sounds."""

from __future__ import annotations

from pathlib import Path

from engine.errors import ParameterError
from engine.media import picture_decoder, sound_decoder
from engine.media.bounded_files import check_file_size, read_file
from engine.media.examples import EXAMPLE_PREFIX, load_example
from engine.media.media_cache import MEDIA_CACHE
from engine.media.media_info import Media
from engine.media.picture import Picture, make_picture
from engine.media.sound import Sound, make_sound
from engine.settings import SETTINGS

_BYTES = (bytes, bytearray, memoryview)


def to_picture(value: object) -> Picture:
    """Convert a value to a picture and cache it, see ``load_trace_media``.

    Args:
        value: a path, the bytes of a file, a Pillow image, a Picture, or ``example:NAME``. The
            format is detected from the content: PNG, JPEG, WebP, GIF, BMP or TIFF, with one frame.

    Returns:
        The picture upright, on a white background, with at most 2048 pixels on its longest side.

    Raises:
        ParameterError: the value has another type or format, is too large or damaged, or is a path
            on a public deployment.
    """
    found = _convert_picture(value)
    if found.example is None:  # examples can be opened again and take no room in the cache
        MEDIA_CACHE.put(found)
    return found


def _convert_picture(value: object) -> Picture:
    if isinstance(value, Picture):
        return value
    if isinstance(value, str) and value.startswith(EXAMPLE_PREFIX):
        found = load_example(value.removeprefix(EXAMPLE_PREFIX))
        if not isinstance(found, Picture):
            raise ParameterError("image", value, "this example is a sound")
        return found
    most = SETTINGS.max_picture_bytes
    if isinstance(value, str | Path):
        return make_picture(picture_decoder.decode_picture(read_file("image", value, most)))
    if isinstance(value, _BYTES):
        return make_picture(
            picture_decoder.decode_picture(check_file_size("image", bytes(value), most))
        )
    from PIL.Image import Image

    if isinstance(value, Image):
        return make_picture(picture_decoder.normalize_picture(value))
    raise ParameterError(
        "image",
        type(value).__name__,
        "it must be a path, the bytes of a file, an image of Pillow, or example:NAME",
    )


def to_sound(value: object) -> Sound:
    """Convert a value to a sound and cache it, see ``load_trace_media``.

    Args:
        value: a path, the bytes of a file, (samples, rate), a Sound, or ``example:NAME``. The
            format is detected from the content: WAV, FLAC, Ogg or MP3.

    Returns:
        The sound in mono at its original sample rate.

    Raises:
        ParameterError: the value has another type or format, is too long or damaged, or is a path
            on a public deployment.
    """
    found = _convert_sound(value)
    if found.example is None:  # examples can be opened again and take no room in the cache
        MEDIA_CACHE.put(found)
    return found


def _convert_sound(value: object) -> Sound:
    if isinstance(value, Sound):
        return value
    if isinstance(value, str) and value.startswith(EXAMPLE_PREFIX):
        found = load_example(value.removeprefix(EXAMPLE_PREFIX))
        if not isinstance(found, Sound):
            raise ParameterError("audio", value, "this example is a picture")
        return found
    most = SETTINGS.max_sound_bytes
    if isinstance(value, str | Path):
        return make_sound(*sound_decoder.decode_sound(read_file("audio", value, most)))
    if isinstance(value, _BYTES):
        return make_sound(*sound_decoder.decode_sound(check_file_size("audio", bytes(value), most)))
    if isinstance(value, tuple | list) and len(value) == 2:
        return make_sound(*sound_decoder.normalize_samples(*value))
    raise ParameterError(
        "audio",
        type(value).__name__,
        "it must be a path, the bytes of a file, (samples, rate), or example:NAME",
    )


def open_media(image: object = None, audio: object = None) -> Media:
    """Open the picture and sound inputs of a run.

    Args:
        image: a value for ``to_picture``, or None.
        audio: a value for ``to_sound``, or None.

    Raises:
        ParameterError: an input is invalid; the error names image or audio.
    """
    return Media(
        None if image is None else to_picture(image), None if audio is None else to_sound(audio)
    )
