"""From the file of a picture to upright RGB, whoever made the file.

Only the six formats of FORMATS are ever tried, whatever a file is called; what else Pillow could open (PostScript
by another program, for one) is not. Colour profiles are left aside, as the image processors of transformers
leave them: a model is given the numbers that it was trained on, and no profile of a stranger is computed with.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from engine.errors import ParameterError
from engine.media.files import Bounded, TooLongError, size_of
from engine.media.picture import MAX_SIDE
from engine.settings import SETTINGS

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
_SEVERAL = "MPO"
"""A JPEG with further pictures behind it (depth, a preview); the first one is the photograph."""
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
_ALPHA = ("LA", "RGBA")
_TILE = (322, 323)
"""TIFF's TileWidth and TileLength."""
_EXIF = re.compile(rb"\xff\xe1..Exif\x00\x00(.{0,65527})", re.DOTALL)
_EXIF_MARK, _NO_MARK = b"Exif\0\0", b"Exif\0\1"
_ONE_PICTURE = "it has more than one frame or page, and one picture is wanted"
_DAMAGED = "the picture is damaged or was cut off"
_AT_ONCE = threading.BoundedSemaphore(2)
"""Pictures that are decoded at a time; each may take some hundred megabytes while it is."""


def decoded(data: bytes) -> Image:
    """Return the picture of a file.

    Args:
        data: the file, not empty.

    Returns:
        Mode RGB, upright as its EXIF says, transparent parts on white, scaled to at most MAX_SIDE pixels on
        its longest side, without metadata.

    Raises:
        ParameterError: it is no picture, is damaged, has several frames or too many pixels, or takes too long.
    """
    from PIL import Image

    jpeg = data.startswith(b"\xff\xd8")
    found = _EXIF.search(data) if jpeg else None
    # Pillow reads all of a JPEG's EXIF when it opens one, and there a few bytes can ask for gigabytes.
    file = Bounded(data.replace(_EXIF_MARK, _NO_MARK) if jpeg else data, SETTINGS.max_open_s)

    def work() -> Any:
        try:
            image = Image.open(file, formats=FORMATS)
        except Image.UnidentifiedImageError:
            wanted = "it must be a picture as PNG, JPEG, WebP, GIF, BMP or TIFF"
            raise ParameterError("image", size_of(data), wanted) from None
        with image:
            return _tidy(image, found[1] if found else None)

    return _guarded(work, size_of(data))


def tidied(image: Image) -> Image:
    """Return an image of Pillow as ``decoded`` returns one; it stays as it is.

    Raises:
        ParameterError: as ``decoded`` raises.
    """
    if image.format not in (None, _SEVERAL, *FORMATS):
        raise ParameterError("image", image.format, f"it must be one of {', '.join(FORMATS)}")
    return _guarded(lambda: _tidy(image), _extent(image))


def _guarded(work: Callable[[], Image], got: str) -> Image:
    """Do what may fail in any way that a file can be wrong, and say how it did."""
    from PIL import Image

    try:
        with _AT_ONCE:
            return work()
    except ParameterError:
        raise
    except TooLongError:
        limit = f"opening it may take at most {SETTINGS.max_open_s:g} seconds"
        raise ParameterError("image", got, limit) from None
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ParameterError("image", got, _pixels_allowed()) from None
    except Exception:  # a decoder may stumble over anything
        raise ParameterError("image", got, _DAMAGED) from None


def _tidy(image: Image, exif: bytes | None = None) -> Image:
    _check(image)
    image.load()
    exif = exif or image.info.get("exif")
    rgb = _on_white(_scaled(_plain(image)))
    return _upright(rgb, exif)


def _check(image: Image) -> None:
    """Refuse what must not be decoded; nothing has been by now but the header."""
    if 0 in image.size:
        raise ParameterError("image", _extent(image), "at least one pixel")
    if image.width * image.height > SETTINGS.max_picture_pixels:
        raise ParameterError("image", _extent(image), _pixels_allowed())
    # Of a TIFF whole tiles are decoded, however little of them the picture needs.
    wide, high = (int(getattr(image, "tag_v2", {}).get(tag, 1)) for tag in _TILE)
    if wide * high > SETTINGS.max_picture_pixels:
        raise ParameterError("image", f"tiles of {wide}x{high} pixels", _pixels_allowed())
    # To count the frames of a hostile file can take minutes.
    if getattr(image, "is_animated", False) and image.format != _SEVERAL:
        raise ParameterError("image", _extent(image), _ONE_PICTURE)
    if image.mode not in _MODES and not image.mode.startswith("I;16"):
        allowed = "its colours must be grey, RGB, CMYK or a palette of 8 or 16 bits a channel"
        raise ParameterError("image", f"mode {image.mode}", allowed)


def _plain(image: Image) -> Image:
    """Return grey or colours, with or without alpha, that can be scaled."""
    if image.mode.startswith("I;16"):
        return _eight_bits(image)
    if image.mode == "PA" or (image.mode not in _ALPHA and image.has_transparency_data):
        return image.convert("RGBA")
    return image.convert({"1": "L", "P": "RGB"}.get(image.mode, image.mode))


def _eight_bits(image: Image) -> Image:
    """Return grey of 16 bits as grey of 8; Pillow's own conversion makes white of all but the darkest."""
    import numpy as np
    from PIL import Image

    values = np.asarray(image)
    grey = ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)
    clear = image.info.get("transparency")
    if isinstance(clear, int):
        grey[values == clear] = 255
    return Image.fromarray(grey)


def _scaled(image: Image) -> Image:
    """Return a picture whose longest side has at most MAX_SIDE pixels."""
    from PIL import Image

    longest = max(image.size)
    if longest <= MAX_SIDE:
        return image
    width, height = (max(1, round(side * MAX_SIDE / longest)) for side in image.size)
    return image.resize((width, height), Image.Resampling.LANCZOS)


def _on_white(image: Image) -> Image:
    from PIL import Image

    if image.mode in _ALPHA:
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image.convert("RGBA"))
        image = white
    return image.convert("RGB")


def _upright(image: Image, exif: bytes | None) -> Image:
    """Return the pixels alone, turned as the EXIF says."""
    from PIL import ExifTags, Image, ImageOps

    pixels = Image.frombytes("RGB", image.size, image.tobytes())
    if exif:
        pixels.getexif()[ExifTags.Base.Orientation] = _orientation(exif)
        ImageOps.exif_transpose(pixels, in_place=True)
        pixels = Image.frombytes("RGB", pixels.size, pixels.tobytes())
    return pixels


def _orientation(exif: bytes) -> int:
    """Return how a picture is turned, 1 to 8; 1, upright, where that cannot be read."""
    from PIL import ExifTags, Image

    tags = Image.Exif()
    try:
        tags.load_from_fp(Bounded(exif.removeprefix(_EXIF_MARK), SETTINGS.max_open_s))
        said = tags.get(ExifTags.Base.Orientation)
        return said if isinstance(said, int) and 1 <= said <= 8 else 1
    except Exception:  # whatever stands there, the picture is one without it
        return 1


def _extent(image: Image) -> str:
    return f"{image.width}x{image.height} pixels"


def _pixels_allowed() -> str:
    return f"at most {SETTINGS.max_picture_pixels / 1e6:g} million pixels"
