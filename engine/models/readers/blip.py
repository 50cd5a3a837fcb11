"""Reader for BLIP: a vision encoder reads the picture, and only the text decoder generates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

from engine.declare.special_tokens import TEXT
from engine.media import Media
from engine.models.model_types import Model
from engine.models.readers.base import MediaInputs, MediaReader
from engine.models.readers.encoder_reader import encode_decoder_prompt
from engine.models.readers.families import Family
from engine.models.readers.processors import Processors

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel


class BlipReader(MediaReader):
    """Runs the vision model once and passes its hidden states to the text decoder, as BLIP's generate() does."""

    def __init__(self, family: Family, processors: Processors, model: Model) -> None:
        super().__init__(family, processors, model)
        self.vision, self.text = model.vision_model, model.config.text_config

    def read(
        self,
        loaded: LoadedModel,
        media: Media,
        prompt: str | None = None,
        ids: Sequence[int] | None = None,
        speech: Mapping[str, object] | None = None,
        special_tokens: str = TEXT,
    ) -> MediaInputs:
        """Return the text decoder's first ids and the picture's hidden states; see the base class."""
        del speech
        assert media.picture is not None
        found = self.processors.pictures(images=media.picture.image, return_tensors="pt")
        with torch.no_grad():
            pixels = found["pixel_values"].to(self.vision.device, self.vision.dtype)
            states = self.vision(pixel_values=pixels).last_hidden_state
        begins = tuple(ids or ())
        if ids is None:
            start = self.text.bos_token_id
            begins = (start, *encode_decoder_prompt(loaded, prompt, special_tokens))
        mask = torch.ones(states.shape[:-1], dtype=torch.long)
        return MediaInputs(
            begins, {"encoder_hidden_states": states, "encoder_attention_mask": mask}
        )
