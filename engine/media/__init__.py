"""Picture and sound inputs: decoded safely and cached in memory, never written to disk.

Metadata such as place, name and date is dropped when a file is opened. Pillow, soundfile and soxr
are imported at the first use, so that the page starts faster.
"""

from engine.media.examples import MediaExample, list_examples
from engine.media.inputs import open_media, to_picture, to_sound
from engine.media.media_cache import is_media_available, load_trace_media
from engine.media.media_info import Media, to_media_info
from engine.media.picture import Picture
from engine.media.serialization import serialize_medium, to_file_bytes
from engine.media.sound import Sound

__all__ = [
    "Media",
    "MediaExample",
    "Picture",
    "Sound",
    "is_media_available",
    "list_examples",
    "load_trace_media",
    "open_media",
    "serialize_medium",
    "to_file_bytes",
    "to_media_info",
    "to_picture",
    "to_sound",
]
