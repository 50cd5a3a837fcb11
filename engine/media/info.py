"""What a run was given beside its text, and what its trace says of that."""

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
    """The picture and the sound of a run; false where it has neither."""

    picture: Picture | None = None
    sound: Sound | None = None

    def __bool__(self) -> bool:
        return self.picture is not None or self.sound is not None

    def kinds(self) -> frozenset[str]:
        """Return which of image and audio there are."""
        there = (("image", self.picture), ("audio", self.sound))
        return frozenset(kind for kind, one in there if one is not None)

    def infos(self) -> tuple[MediaInfo, ...]:
        """Return what the trace says of them."""
        return tuple(info_of(one) for one in (self.picture, self.sound) if one is not None)


def info_of(medium: Picture | Sound) -> MediaInfo:
    """Return what a trace says of a picture or a sound."""
    if isinstance(medium, Picture):
        width, height = medium.image.size
        return MediaInfo(
            "image", medium.sha256, medium.example, width, height, preview=_preview(medium)
        )
    return MediaInfo(
        "audio",
        medium.sha256,
        medium.example,
        seconds=round(medium.seconds, 3),
        rate=medium.rate,
        peaks=_peaks(medium),
    )


def _preview(picture: Picture) -> str:
    """Return base64 of a small JPEG; the image has no metadata, so it has none."""
    small = picture.image.copy()
    small.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE))
    file = io.BytesIO()
    small.save(file, "JPEG", quality=_QUALITY)
    return base64.b64encode(file.getvalue()).decode("ascii")


def _peaks(sound: Sound) -> tuple[float, ...]:
    import numpy as np

    parts = np.array_split(np.abs(sound.samples), min(MAX_PEAKS, len(sound.samples)))
    return tuple(round(float(part.max()), 3) for part in parts)
