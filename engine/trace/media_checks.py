"""Validation of the picture and sound records of a trace."""

from __future__ import annotations

import base64
import io
import re

from engine.errors import TraceError
from engine.trace.records import MEDIA_KINDS, MediaInfo, Trace

PREVIEW_SIDE = 160
"""Longest side of a preview in pixels."""
MAX_PEAKS = 100
EXAMPLE_NAME = "[a-z0-9][a-z0-9-]{0,63}"
_SHA256 = re.compile("[0-9a-f]{64}")
_MAX_PREVIEW = 65_536
"""Base64 characters; a preview of pure noise has half as many."""
_MAX_SIDE = 65_535
_MAX_SECONDS = 86_400
_MAX_RATE = 1_000_000


def check_media(trace: Trace) -> None:
    """Check the picture and sound records; previews are decoded.

    Raises:
        TraceError: a field is invalid; the message names it.
    """
    kinds = [info.kind for info in trace.media]
    if len(set(kinds)) < len(kinds):
        raise TraceError("trace.media has two of a kind.")
    for number, info in enumerate(trace.media):
        _check_info(f"trace.media[{number}]", info)


def _check_info(where: str, info: MediaInfo) -> None:
    if info.kind not in MEDIA_KINDS:
        raise TraceError(
            "{where}.kind must be one of {kinds}.", where=where, kinds=", ".join(MEDIA_KINDS)
        )
    if not _SHA256.fullmatch(info.sha256):
        raise TraceError("{where}.sha256 is no SHA-256.", where=where)
    if info.example is not None and not re.fullmatch(EXAMPLE_NAME, info.example):
        raise TraceError("{where}.example is no name of an example.", where=where)
    if info.kind == "image":
        _check_picture(where, info)
    else:
        _check_sound(where, info)


def _check_picture(where: str, info: MediaInfo) -> None:
    if info.seconds is not None or info.rate is not None or info.peaks:
        raise TraceError("{where} is a picture but describes a sound.", where=where)
    if not all(side is not None and 1 <= side <= _MAX_SIDE for side in (info.width, info.height)):
        raise TraceError("{where} has a size that no picture has.", where=where)
    if info.preview and not _is_preview(info.preview):
        raise TraceError(
            "{where}.preview is no JPEG of at most {n} pixels a side.", where=where, n=PREVIEW_SIDE
        )


def _check_sound(where: str, info: MediaInfo) -> None:
    if info.width is not None or info.height is not None or info.preview:
        raise TraceError("{where} is a sound but describes a picture.", where=where)
    if info.seconds is None or not 0 < info.seconds <= _MAX_SECONDS:
        raise TraceError("{where}.seconds is no length that a sound has.", where=where)
    if info.rate is None or not 1 <= info.rate <= _MAX_RATE:
        raise TraceError("{where}.rate is no rate that a sound has.", where=where)
    if len(info.peaks) > MAX_PEAKS or not all(0 <= peak <= 1 for peak in info.peaks):
        raise TraceError(
            "{where}.peaks must be at most {n} numbers from 0 to 1.", where=where, n=MAX_PEAKS
        )


def _is_preview(text: str) -> bool:
    """Return True if the text is base64 of a JPEG of at most PREVIEW_SIDE pixels a side."""
    if len(text) > _MAX_PREVIEW:
        return False
    from PIL import Image

    try:
        # Without validate, b64decode skips invalid characters.
        # One format, so that the data of a stranger reaches no other decoder of Pillow.
        with Image.open(
            io.BytesIO(base64.b64decode(text, validate=True)), formats=["JPEG"]
        ) as image:
            # Image.open reads the header only: a small file of a huge picture is refused before it is decoded.
            if max(image.size) > PREVIEW_SIDE or image.format != "JPEG":
                return False
            image.load()
    except Exception:  # damaged files make decoders raise any exception
        return False
    return True
