"""Presets for image and speech models, offered if those models are on this machine."""

from __future__ import annotations

from engine.strategies.base import Preset

CAPTION_MODEL, SPEECH_MODEL = "captioner", "transcriber"
"""Names of the models that the presets use."""

MEDIA_PRESETS: dict[str, tuple[Preset, ...]] = {
    "greedy": (
        Preset(
            "Say what is in a picture",
            "",
            {"max_new_tokens": 30},
            "An encoder reads the picture, a decoder writes: the same sentence every time. Try "
            "a picture of your own.",
            model=CAPTION_MODEL,
            image="example:scene-1",
        ),
        Preset(
            "Write down what is said",
            "",
            {"max_new_tokens": 15},
            "An encoder hears the sentence, a decoder writes it word by word: the same words "
            "every time.",
            model=SPEECH_MODEL,
            audio="example:speech-1",
        ),
    ),
    "sampling": (
        Preset(
            "One picture, many sentences",
            "",
            {"max_new_tokens": 30, "temperature": 1.0, "top_k": 0},
            "Another seed describes the same picture differently. Where the picture leaves "
            "something open, many words are possible.",
            model=CAPTION_MODEL,
            image="example:scene-2",
        ),
        Preset(
            "One sentence, heard again",
            "",
            {"max_new_tokens": 15, "temperature": 1.0, "top_k": 0},
            "Where the model is unsure, another seed may hear other words. A clear voice "
            "leaves little choice.",
            model=SPEECH_MODEL,
            audio="example:speech-2",
        ),
    ),
    "beam_search": (
        Preset(
            "The best of four descriptions",
            "",
            {"max_new_tokens": 30, "num_beams": 4},
            "The search keeps four descriptions of one picture. The tree shows where they diverge.",
            model=CAPTION_MODEL,
            image="example:scene-3",
        ),
        Preset(
            "Four ways to hear a sentence",
            "",
            {"max_new_tokens": 15, "num_beams": 4},
            "Greedy search mishears this voice. Of four transcripts, the one that is most "
            "likely as a whole wins.",
            model=SPEECH_MODEL,
            audio="example:speech-5",
        ),
    ),
}
"""Strategy name -> its presets with a picture or a sound."""
