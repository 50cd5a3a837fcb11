"""Pictures and sounds for models that read them: opened safely, kept for a while, never written to disk.

Whatever a file holds beside its pixels or samples, such as a place, a name or a date, is left behind when it
is opened. Pillow, soundfile and soxr are imported when something is opened, as the page comes before them.
"""

from engine.media.examples import MediaExample, list_examples
from engine.media.info import Media, info_of
from engine.media.opening import opened, picture_of, sound_of
from engine.media.packing import file_of, packed
from engine.media.picture import Picture
from engine.media.shelf import is_at_hand, media_of
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
