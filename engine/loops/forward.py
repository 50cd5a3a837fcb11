"""Forward passes of one model over a growing sequence, as in transformers' own loops."""

from __future__ import annotations

from typing import Any

import torch

from engine.model_code import FORWARD_PASS, ModelCall
from engine.models.capabilities import (
    CACHE_ARGUMENTS,
    CUSTOM_CACHE_ARGUMENTS,
    names_encoder_depth,
)
from engine.models.model_types import GenerationConfig, Model, Outputs
from engine.models.readers.token_type_padding import pad_token_types


class Forward:
    """Prefill first, then one position at a time, with the caches generate() prepared.

    Args:
        model: a generation model.
        generation_config: the prepared config generate() passed to the loop.
        model_kwargs: attention mask, cache and encoder outputs as generate() prepared them.

    Attributes:
        passes: forward passes so far.
        first: ids in the first pass, 0 before it.
        given: the arguments of the first pass.
    """

    def __init__(
        self, model: Model, generation_config: GenerationConfig, model_kwargs: dict[str, Any]
    ) -> None:
        self.model = model
        self.generation_config = generation_config
        self.model_kwargs, self.first_kwargs = model_kwargs, dict(model_kwargs)
        self.passes = self.first = 0

    @ModelCall(FORWARD_PASS)
    def __call__(self, input_ids: torch.Tensor, **extra: Any) -> Any:
        """Run the model on the new part of ``input_ids`` (batch, length); return its outputs."""
        model = self.model
        if self.passes == 0:
            self.first = input_ids.shape[1]
            # generate()'s own first pass: it splits long prompts and continues caches that it was given.
            outputs = model._prefill(
                input_ids,
                self.generation_config,
                self.model_kwargs | extra,
                is_first_iteration=True,
            )
        else:
            # Without a cache the model reads the whole text at every step.
            new = 1 if self.uses_cache else None
            inputs = model.prepare_inputs_for_generation(
                input_ids, next_sequence_length=new, **self.model_kwargs
            )
            outputs = self._run_pass(inputs | extra | {"return_dict": True})
            if outputs is None:  # the batched pass failed
                again, outputs = self.replay_alone(input_ids)
                self.model_kwargs, self.passes = again.model_kwargs, again.passes
                return outputs
        self.passes += 1
        # Without this the mask and the positions do not grow, and the next pass reads garbage.
        self.model_kwargs = model._update_model_kwargs_for_generation(
            outputs, self.model_kwargs, is_encoder_decoder=model.config.is_encoder_decoder
        )
        return outputs

    def _run_pass(self, inputs: dict[str, Any]) -> Any:
        """Run the model, through a captured CUDA graph if the cache has one (models/cuda_graphs.py)."""
        repeat = getattr(self.model_kwargs.get("past_key_values"), "run", None)
        return self.model(**inputs) if repeat is None else repeat(self.model, inputs)

    @property
    def shared_cache(self) -> Any:
        """The cache if passes may be batched with other runs (run/batching.py), else None."""
        cache = self.model_kwargs.get("past_key_values")
        return cache if hasattr(cache, "join_batch") else None

    def recompute_alone(self, input_ids: torch.Tensor) -> Any:
        """Recompute (batch, length) ids unbatched, correct the cache, return the last outputs."""
        again, outputs = self.replay_alone(input_ids)
        self.model_kwargs["past_key_values"].write_exact_rows(again.model_kwargs["past_key_values"])
        return outputs

    def replay_alone(self, input_ids: torch.Tensor) -> tuple[Forward, Any]:
        """Return a new Forward that has read (batch, length) ids unbatched, and its last outputs."""
        again = Forward(
            self.model, self.generation_config, with_empty_cache(self.model, self.first_kwargs)
        )
        # Pass by pass, because one long pass would round differently.
        outputs = again(input_ids[:, : self.first])
        for end in range(self.first + 1, input_ids.shape[1] + 1):
            outputs = again(input_ids[:, :end])
        return again, outputs

    @property
    def uses_cache(self) -> bool:
        """Whether the model uses a cache."""
        return bool(self.model_kwargs["use_cache"])

    @ModelCall(FORWARD_PASS)
    def reorder(self, rows: torch.Tensor) -> None:
        """Replace row i of the cache by row ``rows[i]``.

        Args:
            rows: (n,) row numbers, repeats allowed; the cache then has n rows.
        """
        found = find_cache(self.model_kwargs) if self.uses_cache else None
        if found is None:
            return
        name, cache = found
        # Some models override how their cache is reordered.
        if hasattr(self.model, "_reorder_cache"):
            self.model_kwargs[name] = self.model._reorder_cache(cache, rows)
        else:
            cache.reorder_cache(rows)

    @ModelCall(FORWARD_PASS)
    def last_logits(self, outputs: Outputs, device: torch.device) -> torch.Tensor:
        """Return a copy of the (batch, vocab) float32 logits of the last position."""
        # A copy: a CUDA graph overwrites its output, and processors may write into theirs. float32, as
        # generate() computes scores.
        return outputs.logits[:, -1].to(copy=True, dtype=torch.float32, device=device)


_TEXT_ARGUMENTS = (
    "attention_mask",
    "position_ids",
    "cache_position",
    "logits_to_keep",
    "use_cache",
)


def select_media_inputs(model_kwargs: dict[str, Any], length: int) -> dict[str, Any]:
    """Return the decoder inputs other than text, such as pixel values.

    Args:
        model_kwargs: as generate() prepared them.
        length: tokens of the text they are for.
    """
    apart = {*_TEXT_ARGUMENTS, *CACHE_ARGUMENTS, *CUSTOM_CACHE_ARGUMENTS}
    found = {name: value for name, value in model_kwargs.items() if name not in apart}
    return pad_token_types(found, length)


def find_cache(model_kwargs: dict[str, Any]) -> tuple[str, Any] | None:
    """Return the name and the cache among model keyword arguments, or None."""
    for name in (*CACHE_ARGUMENTS, *CUSTOM_CACHE_ARGUMENTS):
        if model_kwargs.get(name) is not None:
            return name, model_kwargs[name]
    return None


def with_empty_cache(model: Model, model_kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments with a new cache, or none if the model makes its own.

    Args:
        model: a generation model.
        model_kwargs: as generate() prepared them, before or after any pass.
    """
    from transformers import DynamicCache, EncoderDecoderCache

    found = find_cache(model_kwargs)
    if found is None:
        return dict(model_kwargs)
    # RWKV, XLNet and Reformer make their own kind of cache when they get none.
    if found[0] in CUSTOM_CACHE_ARGUMENTS:
        return {name: value for name, value in model_kwargs.items() if name != found[0]}
    cache = make_empty_cache(model)
    if model.config.is_encoder_decoder:
        # Without the config: its number of layers may be that of the encoder.
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    return model_kwargs | {found[0]: cache}


def make_empty_cache(model: Model) -> Any:
    """Return a new cache for a decoder: the one its class makes, else a DynamicCache."""
    from transformers import DynamicCache

    if hasattr(model, "new_cache"):
        return model.new_cache()
    if names_encoder_depth(model):
        return DynamicCache()
    return DynamicCache(config=model.config.get_text_config(decoder=True))
