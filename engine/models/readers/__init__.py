"""Readers: turn a picture or a sound into a model's inputs.

Three ways are supported. An encoder reads it and the decoder attends to the encoder (vision
encoder-decoders, Whisper, Speech2Text). Or it is part of the prompt (LLaVA-like models, GIT). Or, in BLIP,
a vision encoder outside the generating part reads it. All other models are refused.
"""

from __future__ import annotations

from engine.errors import ModelError
from engine.models.model_types import Model
from engine.models.readers.base import MediaInputs, MediaReader
from engine.models.readers.blip import BlipReader
from engine.models.readers.encoder_reader import EncoderReader
from engine.models.readers.families import (
    AUDIO,
    BLIP,
    IMAGE,
    PROMPTED,
    WHISPER,
    decoding_part,
    family_of,
)
from engine.models.readers.processors import Processors, load_processors, to_processors
from engine.models.readers.prompt_reader import PromptReader
from engine.models.readers.speech import SpeechChoices, read_speech_choices
from engine.models.readers.whisper import WhisperReader

__all__ = [
    "AUDIO",
    "IMAGE",
    "MediaInputs",
    "MediaReader",
    "SpeechChoices",
    "build_reader",
    "decoding_part",
    "family_of",
    "load_processors",
    "read_speech_choices",
    "to_processors",
]


def build_reader(name: str, model: Model, processors: Processors) -> MediaReader | None:
    """Return the reader for a model's pictures or sounds, None for a text-only model.

    Args:
        name: the model's name.
        model: the complete transformers model.
        processors: the model's processors.

    Raises:
        ModelError: the model requires pictures or sounds, but its folder has no processor for them.
    """
    family = family_of(model)
    if family is None:
        return None
    needed = processors.sounds if AUDIO in family.takes else processors.pictures
    if needed is None and family.needs is None:
        return None
    if needed is None:
        if AUDIO in family.takes:
            raise ModelError(
                "{name} reads sounds, and no preprocessor_config.json in its folder says how they "
                "are prepared.",
                name=name,
            )
        raise ModelError(
            "{name} reads pictures, and no preprocessor_config.json in its folder says how they "
            "are prepared.",
            name=name,
        )
    kinds = {WHISPER: WhisperReader, BLIP: BlipReader, PROMPTED: PromptReader}
    return kinds.get(family.kind, EncoderReader)(family, processors, model)
