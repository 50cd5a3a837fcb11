"""Small inputs that would cost much, and what refusing one takes."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from collections.abc import Callable

MAX_MORE_MB = 100
"""Most memory that refusing a bomb may take."""


def peak_mb(refuse: Callable[[], object]) -> float:
    """Return the memory that a function takes at most, of Python's own objects and texts."""
    tracemalloc.start()
    try:
        refuse()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def lists(size: int) -> bytes:
    """Return a JSON list of empty lists, of about so many bytes."""
    return b"[" + b"[]," * (size // 3) + b"[]]"


def zipped_lists(size: int) -> bytes:
    """Return the same as gzip: a thousandth of the size."""
    return gzip.compress(lists(size), 9)


def picture(width: int, height: int, form: str) -> bytes:
    """Return a picture of one colour, whose file is small however large it is."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("1", (width, height)).save(file, form)
    return file.getvalue()
