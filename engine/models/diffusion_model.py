"""The embedded masked diffusion model, which sees a text in both directions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from engine.models.capabilities import FILLER
from engine.models.eight_bits import unpack
from engine.models.hashes import check_embedded_files
from engine.models.meta_model import CONSTRUCTION_LOCK
from engine.models.tokenizers import load_tokenizer
from engine.sources.catalogue import MODEL_DIR


@dataclass(frozen=True)
class DiffusionModel:
    """A model that says what a hidden place holds."""

    model: Any
    """A Llama whose vocabulary has one more id, which hides a token."""
    tokenizer: Any

    @property
    def mask_id(self) -> int:
        """The id that hides a token; it comes after the vocabulary."""
        return int(self.model.config.vocab_size) - 1

    @property
    def max_length(self) -> int:
        """Positions that the model knows."""
        return int(self.model.config.max_position_embeddings)

    def logits(self, ids: torch.Tensor) -> torch.Tensor:
        """Return (length, vocab) float32 logits for (length,) ids; the mask is never an answer."""
        length = len(ids)
        # Not as a decorator, which would import torch with this module.
        with torch.inference_mode():
            # An additive mask of zeros: every place sees all others, where a Llama's own mask is causal.
            seen = torch.zeros(1, 1, length, length, dtype=self.model.dtype)
            found = self.model(ids[None], attention_mask=seen, use_cache=False).logits
            return found[0, :, : self.mask_id].float()


@cache
def load_diffusion_model() -> DiffusionModel:
    """Return the embedded model, loaded once, with Storyteller's tokenizer.

    Raises:
        ModelError: its files are damaged.
    """
    from safetensors.torch import load_file
    from transformers import LlamaConfig, LlamaForCausalLM

    check_embedded_files(FILLER)
    folder = MODEL_DIR / FILLER
    with CONSTRUCTION_LOCK:
        model = LlamaForCausalLM(LlamaConfig.from_pretrained(folder))
    # The output layer is the embedding, which is stored once.
    model.load_state_dict(unpack(load_file(folder / "model.safetensors")), strict=False)
    model.tie_weights()
    return DiffusionModel(
        model.eval().requires_grad_(False), load_tokenizer(str(MODEL_DIR / "storyteller"))
    )
