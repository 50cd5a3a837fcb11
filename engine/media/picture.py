"""A decoded picture, the input of an image model."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_SIDE = 2048
"""Pixels of the longest side after scaling; models read fewer."""


@dataclass(frozen=True, eq=False)
class Picture:
    """Decoded pixels with their hash.

    Attributes:
        image: mode RGB, upright, 1 to MAX_SIDE pixels a side, without metadata; do not modify.
        sha256: hex digest of size and pixels.
        example: name of the built-in example, else None.
    """

    image: Image
    sha256: str
    example: str | None = None

    def memory_bytes(self) -> int:
        """Return its memory in bytes; Pillow stores an RGB pixel in four bytes."""
        return 4 * self.image.width * self.image.height


def make_picture(image: Image, example: str | None = None) -> Picture:
    """Make a Picture with its hash.

    Args:
        image: see ``Picture.image``.
        example: name of the built-in example, if it is one.
    """
    digest = hashlib.sha256(f"{image.width}x{image.height}\n".encode())
    digest.update(image.tobytes())
    return Picture(image, digest.hexdigest(), example)
