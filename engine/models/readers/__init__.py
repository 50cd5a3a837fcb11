"""How a model is given a picture or a sound: which models take one, and what becomes of it.

Three ways are known. An encoder of its own reads it and the decoder looks there (vision encoder-decoders, Whisper,
Speech2Text); or it stands in the prompt among the tokens (LLaVA and its like, GIT); or, in BLIP, an encoder reads it
that is no part of what generates. Everything else gets a sentence.
"""

from __future__ import annotations

from typing import Any

from engine.errors import ModelError
from engine.models.readers.base import MediaInputs, MediaReader
from engine.models.readers.blip import BlipReader
from engine.models.readers.encoded import EncodedReader
from engine.models.readers.families import (
    AUDIO,
    BLIP,
    IMAGE,
    PROMPTED,
    WHISPER,
    decoding_part,
    family_of,
)
from engine.models.readers.processors import Processors, processors_in, sorted_out
from engine.models.readers.prompted import PromptedReader
from engine.models.readers.speech import SpeechChoices, speech_in
from engine.models.readers.whisper import WhisperReader

__all__ = [
    "AUDIO",
    "IMAGE",
    "MediaInputs",
    "MediaReader",
    "SpeechChoices",
    "decoding_part",
    "family_of",
    "processors_in",
    "reader_of",
    "sorted_out",
    "speech_in",
]


def reader_of(name: str, model: Any, processors: Processors) -> MediaReader | None:
    """Return how a model is given pictures or sounds, None for one that reads text alone.

    Args:
        name: what the model is called.
        model: as transformers loads it, whole.
        processors: that prepare them for it.

    Raises:
        ModelError: it needs them, and nothing says how they are prepared.
    """
    family = family_of(model)
    if family is None:
        return None
    needed = processors.sounds if AUDIO in family.takes else processors.pictures
    if needed is None and family.needs is None:
        return None
    if needed is None:
        what = "sounds" if AUDIO in family.takes else "pictures"
        raise ModelError(
            f"{name} reads {what}, and no preprocessor_config.json in its folder says how they are prepared."
        )
    kinds = {WHISPER: WhisperReader, BLIP: BlipReader, PROMPTED: PromptedReader}
    return kinds.get(family.kind, EncodedReader)(family, processors, model)
