"""In-memory LRU cache of opened pictures and sounds, keyed by their hash.

Anyone who knows a hash can run a model on the medium again. A trace holds the hash and a preview.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from engine.errors import EngineError
from engine.media.examples import list_examples, load_example
from engine.media.media_info import Media
from engine.media.picture import Picture
from engine.media.sound import Sound
from engine.settings import SETTINGS
from engine.trace.records import MediaInfo, Trace


class MediaCache:
    """A thread-safe LRU cache of pictures and sounds.

    Args:
        most_bytes: limit of pixels and samples together.
        most: limit of the number of entries.
    """

    def __init__(self, most_bytes: int, most: int) -> None:
        self.most_bytes, self.most = most_bytes, most
        self._kept: OrderedDict[str, Picture | Sound] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def put(self, medium: Picture | Sound) -> None:
        """Add an entry, or mark it as recently used; an entry above the byte limit is not kept."""
        with self._lock:
            # First, so that the bytes of an equal entry are not counted twice.
            self._evict(medium.sha256)
            self._kept[medium.sha256] = medium
            self._bytes += medium.memory_bytes()
            while len(self._kept) > self.most or self._bytes > self.most_bytes:
                self._evict(next(iter(self._kept)))

    def get(self, sha256: str) -> Picture | Sound | None:
        """Return an entry and mark it as recently used; None if it is not cached."""
        with self._lock:
            found = self._kept.get(sha256)
            if found is not None:
                self._kept.move_to_end(sha256)
            return found

    def memory_bytes(self) -> int:
        """Return the memory of all entries in bytes."""
        return self._bytes

    def __len__(self) -> int:
        return len(self._kept)

    def _evict(self, sha256: str) -> None:
        gone = self._kept.pop(sha256, None)
        self._bytes -= gone.memory_bytes() if gone is not None else 0


MEDIA_CACHE = MediaCache(SETTINGS.max_kept_media_bytes, SETTINGS.max_kept_media)


def load_trace_media(trace: Trace) -> Media:
    """Return the picture and the sound of a run from cache or examples; empty for text runs.

    Raises:
        EngineError: one of them is not cached.
    """
    picture = sound = None
    for info in trace.media:
        found = MEDIA_CACHE.get(info.sha256) or _find_example(info)
        if isinstance(found, Picture) and info.kind == "image":
            picture = found
        elif isinstance(found, Sound) and info.kind == "audio":
            sound = found
        elif info.kind == "image":
            raise EngineError("The picture of this run is not at hand any more: give it again.")
        else:
            raise EngineError("The sound of this run is not at hand any more: give it again.")
    return Media(picture, sound)


def is_media_available(trace: Trace) -> bool:
    """Return True if the picture and the sound of a run are cached or examples."""
    try:
        load_trace_media(trace)
    except EngineError:
        return False
    return True


def _find_example(info: MediaInfo) -> Picture | Sound | None:
    """Return the example named in a record; None if it has none or its hash has changed."""
    if info.example is None or info.example not in {one.name for one in list_examples()}:
        return None
    found = load_example(info.example)
    return found if found.sha256 == info.sha256 else None
