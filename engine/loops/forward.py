"""One model's forward passes over a growing sequence, as transformers' own loops make them."""

from __future__ import annotations

from typing import Any

import torch


class Forward:
    """Prefill first, then one position at a time, with the caches generate() prepared.

    Args:
        model: a generation model.
        generation_config: the prepared config generate() handed to the loop.
        model_kwargs: attention mask, cache and encoder outputs as generate() prepared them.
    """

    def __init__(self, model: Any, generation_config: Any, model_kwargs: dict[str, Any]) -> None:
        self.model = model
        self.generation_config = generation_config
        self.model_kwargs = model_kwargs
        self.passes = 0

    def __call__(self, input_ids: torch.Tensor, **extra: Any) -> Any:
        """Run the model on what is new in ``input_ids`` (batch, length); return its outputs."""
        model = self.model
        if self.passes == 0:
            outputs = model._prefill(
                input_ids,
                self.generation_config,
                self.model_kwargs | extra,
                is_first_iteration=True,
            )
        else:
            new = 1 if self.model_kwargs["use_cache"] else None
            inputs = model.prepare_inputs_for_generation(
                input_ids, next_sequence_length=new, **self.model_kwargs
            )
            outputs = model(**(inputs | extra), return_dict=True)
        self.passes += 1
        self.model_kwargs = model._update_model_kwargs_for_generation(
            outputs, self.model_kwargs, is_encoder_decoder=model.config.is_encoder_decoder
        )
        return outputs

    def last_logits(self, outputs: Any, device: torch.device) -> torch.Tensor:
        """Return (batch, vocab) float32 logits of the last position, copied."""
        return outputs.logits[:, -1].to(copy=True, dtype=torch.float32, device=device)
