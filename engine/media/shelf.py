"""Pictures and sounds that were opened of late, by their hash: in memory alone, as long as there is room.

Whoever knows the hash of one can have a model read it again: a trace has the hash, and a preview besides.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from engine.errors import EngineError
from engine.media.examples import example, list_examples
from engine.media.info import Media
from engine.media.picture import Picture
from engine.media.sound import Sound
from engine.settings import SETTINGS
from engine.trace.records import MediaInfo, Trace


class MediaShelf:
    """What was opened of late; what was used longest ago loses its place first.

    Args:
        most_bytes: of pixels and samples together.
        most: pictures and sounds.
    """

    def __init__(self, most_bytes: int, most: int) -> None:
        self.most_bytes, self.most = most_bytes, most
        self._kept: OrderedDict[str, Picture | Sound] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, medium: Picture | Sound) -> None:
        """Take one in, or up again; what is larger than all the room is not kept."""
        with self._lock:
            self._drop(medium.sha256)
            self._kept[medium.sha256] = medium
            self._bytes += medium.bytes()
            while len(self._kept) > self.most or self._bytes > self.most_bytes:
                self._drop(next(iter(self._kept)))

    def get(self, sha256: str) -> Picture | Sound | None:
        """Return one, None where it is not here (any more)."""
        with self._lock:
            found = self._kept.get(sha256)
            if found is not None:
                self._kept.move_to_end(sha256)
            return found

    def bytes(self) -> int:
        """Return the memory that all of them take."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._kept)

    def _drop(self, sha256: str) -> None:
        gone = self._kept.pop(sha256, None)
        self._bytes -= gone.bytes() if gone is not None else 0


KEPT_MEDIA = MediaShelf(SETTINGS.max_kept_media_bytes, SETTINGS.max_kept_media)


def media_of(trace: Trace) -> Media:
    """Return the picture and the sound of a run, whether kept or examples; neither for a run on text alone.

    Raises:
        EngineError: one of them is not at hand any more.
    """
    picture = sound = None
    for info in trace.media:
        found = KEPT_MEDIA.get(info.sha256) or _example(info)
        if isinstance(found, Picture) and info.kind == "image":
            picture = found
        elif isinstance(found, Sound) and info.kind == "audio":
            sound = found
        elif info.kind == "image":
            raise EngineError("The picture of this run is not at hand any more: give it again.")
        else:
            raise EngineError("The sound of this run is not at hand any more: give it again.")
    return Media(picture, sound)


def is_at_hand(trace: Trace) -> bool:
    """Return whether all that a run was given to look at or to listen to can be had again."""
    try:
        media_of(trace)
    except EngineError:
        return False
    return True


def _example(info: MediaInfo) -> Picture | Sound | None:
    """Return the example of a record, None where it has none or another one has its name by now."""
    if info.example is None or info.example not in {one.name for one in list_examples()}:
        return None
    found = example(info.example)
    return found if found.sha256 == info.sha256 else None
