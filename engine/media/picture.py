"""A picture as a model is given it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_SIDE = 2048
"""Pixels of the longest side that are kept of a picture; models look at fewer."""


@dataclass(frozen=True, eq=False)
class Picture:
    """Pixels, and what they are known by.

    Attributes:
        image: mode RGB, upright, 1 to MAX_SIDE pixels a side, without metadata; not to be changed.
        sha256: hex, of size and pixels.
        example: name of the example that it is, None for any other.
    """

    image: Image
    sha256: str
    example: str | None = None

    def bytes(self) -> int:
        """Return the memory it takes; Pillow has four bytes for a pixel of three."""
        return 4 * self.image.width * self.image.height


def picture(image: Image, example: str | None = None) -> Picture:
    """Return pixels with their hash.

    Args:
        image: as ``Picture.image``.
        example: its name, where it is one.
    """
    digest = hashlib.sha256(f"{image.width}x{image.height}\n".encode())
    digest.update(image.tobytes())
    return Picture(image, digest.hexdigest(), example)
