"""Decoding of untrusted picture files to upright RGB.

Only the formats of FORMATS are tried; Pillow could open others, such as PostScript, by an external
program. Colour profiles are ignored, as in transformers' image processors: a model gets the numbers
that it was trained on.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.errors import ParameterError
from engine.media.bounded_files import BoundedFile, ReadTimeoutError, size_label
from engine.media.picture import MAX_SIDE
from engine.messages import Message
from engine.settings import SETTINGS

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
_MULTI_PICTURE_FORMAT = "MPO"
"""A JPEG followed by further pictures (depth, preview); the first one is the photograph."""
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
_ALPHA = ("LA", "RGBA")
_TILE_TAGS = (322, 323)
"""The TIFF tags TileWidth and TileLength."""
_EXIF = re.compile(rb"\xff\xe1..Exif\x00\x00(.{0,65527})", re.DOTALL)
_EXIF_MARK, _NO_MARK = b"Exif\0\0", b"Exif\0\1"
_ONE_FRAME_MESSAGE = "it has more than one frame or page, and one picture is wanted"
_DAMAGED_MESSAGE = "the picture is damaged or was cut off"
_DECODE_SLOTS = threading.BoundedSemaphore(2)
"""Limits concurrent decoding; each picture may take some hundred megabytes meanwhile."""


def decode_picture(data: bytes) -> Image:
    """Decode a picture file.

    Args:
        data: content of the file, not empty.

    Returns:
        An image in mode RGB, rotated by its EXIF orientation, on white, with at most MAX_SIDE
        pixels on its longest side, without metadata.

    Raises:
        ParameterError: the file is no picture, is damaged, has several frames or too many pixels,
            or takes too long.
    """
    from PIL import Image

    jpeg = data.startswith(b"\xff\xd8")
    found = _EXIF.search(data) if jpeg else None
    # Pillow parses a JPEG's whole EXIF on opening, and a few bytes of it can ask for gigabytes.
    # So the EXIF is hidden from it and only the orientation is read later.
    file = BoundedFile(data.replace(_EXIF_MARK, _NO_MARK) if jpeg else data, SETTINGS.max_open_s)

    def work() -> Any:
        try:
            image = Image.open(file, formats=FORMATS)
        except Image.UnidentifiedImageError:
            wanted = "it must be a picture as PNG, JPEG, WebP, GIF, BMP or TIFF"
            raise ParameterError("image", size_label(data), wanted) from None
        with image:
            return _to_upright_rgb(image, found[1] if found else None, file.check_time)

    return _decode_safely(work, size_label(data))


def normalize_picture(image: Image) -> Image:
    """Convert a Pillow image to the result of ``decode_picture``; the argument is not modified.

    Raises:
        ParameterError: as for ``decode_picture``.
    """
    if image.format not in (None, _MULTI_PICTURE_FORMAT, *FORMATS):
        raise ParameterError(
            "image",
            image.format,
            Message("it must be one of {choices}", choices=", ".join(FORMATS)),
        )
    return _decode_safely(lambda: _to_upright_rgb(image), _extent_label(image))


def _decode_safely(work: Callable[[], Image], got: str) -> Image:
    """Run a decoder and convert any of its exceptions to a ParameterError."""
    from PIL import Image

    try:
        with _DECODE_SLOTS:
            return work()
    except ParameterError:
        raise
    except ReadTimeoutError:
        limit = Message("opening it may take at most {n} seconds", n=f"{SETTINGS.max_open_s:g}")
        raise ParameterError("image", got, limit) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ParameterError("image", got, _pixel_limit_message()) from None
    except Exception:  # damaged files make decoders raise any exception
        raise ParameterError("image", got, _DAMAGED_MESSAGE) from None


def _to_upright_rgb(
    image: Image, exif: bytes | None = None, check_time: Callable[[], None] = lambda: None
) -> Image:
    _check_header(image)
    image.load()
    exif = exif or image.info.get("exif")
    for work in (_to_scalable_mode, _scale_down, _flatten_on_white):
        check_time()
        image = work(image)
    return _apply_orientation(image, exif)


def _check_header(image: Image) -> None:
    """Check size, frames and mode before decoding; only the header has been read so far."""
    if 0 in image.size:
        raise ParameterError("image", _extent_label(image), "at least one pixel")
    _check_extent(image.width, image.height, _extent_label(image))
    # Whole TIFF tiles are decoded, even if the picture covers little of them.
    wide, high = (int(getattr(image, "tag_v2", {}).get(tag, 1)) for tag in _TILE_TAGS)
    _check_extent(wide, high, Message("tiles of {size} pixels", size=f"{wide}x{high}"))
    # Counting the frames of a hostile file can take minutes, so animations are refused uncounted.
    if getattr(image, "is_animated", False) and image.format != _MULTI_PICTURE_FORMAT:
        raise ParameterError("image", _extent_label(image), _ONE_FRAME_MESSAGE)
    # 32-bit modes (I, F) are refused, as their values have no defined range.
    if image.mode not in _MODES and not image.mode.startswith("I;16"):
        allowed = "its colours must be grey, RGB, CMYK or a palette of 8 or 16 bits a channel"
        raise ParameterError("image", Message("mode {mode}", mode=image.mode), allowed)


def _check_extent(width: int, height: int, got: str) -> None:
    if width * height > SETTINGS.max_picture_pixels:
        raise ParameterError("image", got, _pixel_limit_message())
    # Pillow stores a pointer for each row, and scales columns and rows separately.
    if max(width, height) > SETTINGS.max_picture_side:
        limit = Message("at most {n} pixels on each side", n=SETTINGS.max_picture_side)
        raise ParameterError("image", got, limit)


def _to_scalable_mode(image: Image) -> Image:
    """Convert to a mode that can be scaled: grey or colour, with or without alpha."""
    if image.mode.startswith("I;16"):
        return _to_eight_bits(image)
    if image.mode == "PA" or (image.mode not in _ALPHA and image.has_transparency_data):
        return image.convert("RGBA")
    return image.convert({"1": "L", "P": "RGB"}.get(image.mode, image.mode))


def _to_eight_bits(image: Image) -> Image:
    """Convert 16-bit grey to 8 bits; Pillow's conversion clips nearly all pixels to white."""
    import numpy as np
    from PIL import Image

    values = np.asarray(image)
    # 65535 / 255 = 257, so white stays white.
    grey = ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)
    clear = image.info.get("transparency")
    if isinstance(clear, int):
        grey[values == clear] = 255
    return Image.fromarray(grey)


def _scale_down(image: Image) -> Image:
    """Scale down to at most MAX_SIDE pixels on the longest side."""
    from PIL import Image

    longest = max(image.size)
    if longest <= MAX_SIDE:
        return image
    width, height = (max(1, round(side * MAX_SIDE / longest)) for side in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _flatten_on_white(image: Image) -> Image:
    from PIL import Image

    # convert("RGB") alone would leave transparent parts black.
    if image.mode in _ALPHA:
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image.convert("RGBA"))
        image = white
    return image.convert("RGB")


def _apply_orientation(image: Image, exif: bytes | None) -> Image:
    """Return the pixels without metadata, rotated by the EXIF orientation."""
    from PIL import ExifTags, Image, ImageOps

    # A copy of the bytes alone has no metadata.
    pixels = Image.frombytes("RGB", image.size, image.tobytes())
    if exif:
        pixels.getexif()[ExifTags.Base.Orientation] = _read_orientation(exif)
        ImageOps.exif_transpose(pixels, in_place=True)
        pixels = Image.frombytes("RGB", pixels.size, pixels.tobytes())
    return pixels


def _read_orientation(exif: bytes) -> int:
    """Return the EXIF orientation, 1 to 8; 1 (upright) if it cannot be read."""
    from PIL import ExifTags, Image

    tags = Image.Exif()
    try:
        tags.load_from_fp(BoundedFile(exif.removeprefix(_EXIF_MARK), SETTINGS.max_open_s))
        said = tags.get(ExifTags.Base.Orientation)
        return said if isinstance(said, int) and 1 <= said <= 8 else 1
    except Exception:  # a picture with damaged EXIF is still a picture
        return 1


def _extent_label(image: Image) -> str:
    return Message("{size} pixels", size=f"{image.width}x{image.height}")


def _pixel_limit_message() -> str:
    return Message("at most {n} million pixels", n=f"{SETTINGS.max_picture_pixels / 1e6:g}")
