"""The picture and sound inputs of a run, and their metadata in the trace."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass

from engine.media.picture import Picture
from engine.media.sound import Sound
from engine.trace.media_checks import MAX_PEAKS, PREVIEW_SIDE
from engine.trace.records import MediaInfo

_QUALITY = 70


@dataclass(frozen=True)
class Media:
    """The picture and the sound of a run; falsy without either."""

    picture: Picture | None = None
    sound: Sound | None = None

    def __bool__(self) -> bool:
        return self.picture is not None or self.sound is not None

    def kinds(self) -> frozenset[str]:
        """Return the kinds that are present: image, audio or both."""
        there = (("image", self.picture), ("audio", self.sound))
        return frozenset(kind for kind, one in there if one is not None)

    def infos(self) -> tuple[MediaInfo, ...]:
        """Return their metadata for the trace."""
        return tuple(to_media_info(one) for one in (self.picture, self.sound) if one is not None)


def to_media_info(medium: Picture | Sound) -> MediaInfo:
    """Return the trace metadata of a picture or a sound."""
    if isinstance(medium, Picture):
        width, height = medium.image.size
        return MediaInfo(
            "image", medium.sha256, medium.example, width, height, preview=_encode_preview(medium)
        )
    return MediaInfo(
        "audio",
        medium.sha256,
        medium.example,
        seconds=round(medium.seconds, 3),
        rate=medium.rate,
        peaks=_compute_peaks(medium),
    )


def _encode_preview(picture: Picture) -> str:
    """Return a small JPEG as base64, without metadata because the picture has none."""
    small = picture.image.copy()
    small.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=_QUALITY)
    return base64.b64encode(file.getvalue()).decode("ascii")


def _compute_peaks(sound: Sound) -> tuple[float, ...]:
    import numpy as np

    parts = np.array_split(np.abs(sound.samples), min(MAX_PEAKS, len(sound.samples)))
    return tuple(round(float(part.max()), 3) for part in parts)
