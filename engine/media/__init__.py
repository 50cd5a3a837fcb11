"""Picture and sound inputs: decoded safely and cached in memory, never written to disk.

Metadata such as place, name and date is dropped when a file is opened. Pillow, soundfile and soxr
are imported at the first use, so that the page starts faster.
"""

from engine.media.examples import MediaExample, list_examples
from engine.media.inputs import opened, picture_of, sound_of
from engine.media.media_cache import is_at_hand, media_of
from engine.media.media_info import Media, info_of
from engine.media.picture import Picture
from engine.media.serialization import file_of, packed
from engine.media.sound import Sound

__all__ = [
    "Media",
    "MediaExample",
    "Picture",
    "Sound",
    "file_of",
    "info_of",
    "is_at_hand",
    "list_examples",
    "media_of",
    "opened",
    "packed",
    "picture_of",
    "sound_of",
]
