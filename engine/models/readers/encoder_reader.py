"""Reader for models whose encoder reads a picture or a sound; the decoder begins with start token and prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from engine.declare.special_tokens import TEXT
from engine.errors import ModelError
from engine.media import Media
from engine.models.readers.base import MediaInputs, MediaReader
from engine.models.special_tokens import encode_prompt

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel


class EncoderReader(MediaReader):
    """Prepares a picture or a sound for the model's encoder."""

    def read(
        self,
        loaded: LoadedModel,
        media: Media,
        prompt: str | None = None,
        ids: Sequence[int] | None = None,
        speech: Mapping[str, object] | None = None,
        special_tokens: str = TEXT,
    ) -> MediaInputs:
        """Return the decoder's first ids and the encoder's inputs; see the base class."""
        inputs = self.inputs(media)
        begins = (
            tuple(ids)
            if ids is not None
            else self.decoder_start_ids(loaded, inputs, prompt, speech or {}, special_tokens)
        )
        return MediaInputs(begins, inputs)

    def inputs(self, media: Media) -> dict[str, torch.Tensor]:
        """Return the encoder's inputs, with batch size 1."""
        if media.picture is not None:
            found = self.processors.pictures(images=media.picture.image, return_tensors="pt")
        else:
            assert media.sound is not None
            rate = int(self.processors.sounds.sampling_rate)
            found = self.processors.sounds(
                media.sound.resample(rate), sampling_rate=rate, return_tensors="pt"
            )
        return {name: value for name, value in found.items() if torch.is_tensor(value)}

    def decoder_start_ids(
        self,
        loaded: LoadedModel,
        inputs: Mapping[str, torch.Tensor],
        prompt: str | None,
        speech: Mapping[str, object],
        special_tokens: str,
    ) -> tuple[int, ...]:
        """Return the decoder's start token followed by the prompt's tokens."""
        del inputs, speech
        return (decoder_start_id(loaded), *encode_decoder_prompt(loaded, prompt, special_tokens))


def decoder_start_id(loaded: LoadedModel) -> int:
    """Return the decoder's start token, looked up in the same order as generate() does.

    Raises:
        ModelError: the model's files declare none.
    """
    config = loaded.model.config
    own = loaded.model.generation_config
    for owner, name in (
        (own, "decoder_start_token_id"),
        (config, "decoder_start_token_id"),
        (config.get_text_config(decoder=True), "decoder_start_token_id"),
        (own, "bos_token_id"),
        (config.get_text_config(decoder=True), "bos_token_id"),
    ):
        found = getattr(owner, name, None)
        if found is not None:
            return int(found)
    raise ModelError("{name} does not say with which token its decoder begins.", name=loaded.name)


def encode_decoder_prompt(
    loaded: LoadedModel, prompt: str | None, special_tokens: str
) -> list[int]:
    """Return a prompt's ids without added special tokens; see ``encode_prompt``.

    Raises:
        ModelError: there is a prompt but no tokenizer.
    """
    if not prompt:
        return []
    if loaded.tokenizer is None:
        raise ModelError("{name} has no tokenizer, so it takes no prompt.", name=loaded.name)
    return encode_prompt(loaded.tokenizer, prompt, special_tokens, add_special_tokens=False)
