"""Which models read pictures or sounds in a way that is known here, by class and configuration alone."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

IMAGE, AUDIO = "image", "audio"
ENCODED, PROMPTED, WHISPER, BLIP = "encoded", "prompted", "whisper", "blip"
_ENCODER_INPUTS = {
    "pixel_values": IMAGE,
    "flattened_patches": IMAGE,
    "input_features": AUDIO,
    "input_values": AUDIO,
}
"""Main input of a class -> what its encoder reads."""


@dataclass(frozen=True)
class Family:
    """A way in which models are given pictures or sounds.

    Attributes:
        kind: encoded, prompted, whisper or blip.
        takes: what can be given.
        needs: what must be given, None where text alone will do.
        encodes: whether an encoder reads it, so that the prompt is what the decoder begins with.
    """

    kind: str
    takes: frozenset[str]
    needs: str | None
    encodes: bool

    @property
    def speaks(self) -> bool:
        """Whether it is told a language, a task and whether to write times."""
        return self.kind == WHISPER


def family_of(model: Any) -> Family | None:
    """Return how a model is given pictures or sounds, None for one that reads text alone or in no way that is known.

    Args:
        model: a transformers model, whole; its weights are not looked at.
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
    if not config.is_encoder_decoder and main == "input_ids" and _sees(config):
        return Family(PROMPTED, frozenset({IMAGE}), None, encodes=False)
    return None


def decoding_part(model: Any) -> Any:
    """Return the part of a model whose generate() writes its text: the model itself, but in BLIP.

    There generate() of the whole runs the encoder and then that of its text decoder, whose texts end with the
    separator. The part shares all weights; only its generation_config is its own.
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


def _sees(config: Any) -> bool:
    return getattr(config, "vision_config", None) is not None
