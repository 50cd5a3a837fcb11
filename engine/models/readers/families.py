"""Families of models by how they read pictures or sounds, found from class and configuration."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from engine.models.model_types import Model

IMAGE, AUDIO = "image", "audio"
ENCODED, PROMPTED, WHISPER, BLIP = "encoded", "prompted", "whisper", "blip"
_ENCODER_INPUTS = {
    "pixel_values": IMAGE,
    "flattened_patches": IMAGE,
    "input_features": AUDIO,
    "input_values": AUDIO,
}
"""Main input of a model class -> kind of media its encoder reads."""


@dataclass(frozen=True)
class Family:
    """How a group of models reads pictures or sounds.

    Attributes:
        kind: encoded, prompted, whisper or blip.
        takes: accepted media: image, audio.
        needs: required kind of media, None if text alone is enough.
        encodes: whether an encoder reads it, so that the prompt is the start of the decoder's text.
    """

    kind: str
    takes: frozenset[str]
    needs: str | None
    encodes: bool

    @property
    def is_speech_model(self) -> bool:
        """Whether it has settings for language, task and timestamps."""
        return self.kind == WHISPER


def family_of(model: Model) -> Family | None:
    """Return a model's family, None if it reads text only or reads media in an unsupported way.

    Args:
        model: a complete transformers model; its weights are not used.
    """
    config, main = getattr(model, "config", None), getattr(model, "main_input_name", "input_ids")
    if config is None:
        return None
    if config.model_type == "whisper":
        return Family(WHISPER, frozenset({AUDIO}), AUDIO, encodes=True)
    if config.model_type == "blip" and hasattr(model, "text_decoder"):
        return Family(BLIP, frozenset({IMAGE}), IMAGE, encodes=True)
    if config.is_encoder_decoder and main in _ENCODER_INPUTS:
        kind = _ENCODER_INPUTS[main]
        return Family(ENCODED, frozenset({kind}), kind, encodes=True)
    if not config.is_encoder_decoder and main == "input_ids" and _has_vision(config):
        return Family(PROMPTED, frozenset({IMAGE}), None, encodes=False)
    return None


def decoding_part(model: Model) -> Any:
    """Return the part of a model whose generate() writes the text: the model itself, except for BLIP.

    BLIP's generate() runs the vision encoder and then the text decoder's generate(), with the separator as
    end token. The returned part shares all weights but has its own generation_config.
    """
    family = family_of(model)
    if family is None or family.kind != BLIP:
        return model
    from transformers import GenerationConfig

    part, own = copy.copy(model.text_decoder), model.config.text_config
    part.generation_config = GenerationConfig(
        bos_token_id=own.bos_token_id, eos_token_id=own.sep_token_id, pad_token_id=own.pad_token_id
    )
    return part


def _has_vision(config: object) -> bool:
    return getattr(config, "vision_config", None) is not None
