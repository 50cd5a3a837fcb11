"""One model's forward passes over a growing sequence, as transformers' own loops make them."""

from __future__ import annotations

from typing import Any

import torch

from engine.models.capabilities import CACHES, OWN_CACHES
from engine.models.readers.lengths import for_length


class Forward:
    """Prefill first, then one position at a time, with the caches generate() prepared.

    Args:
        model: a generation model.
        generation_config: the prepared config generate() handed to the loop.
        model_kwargs: attention mask, cache and encoder outputs as generate() prepared them.

    Attributes:
        passes: so far.
        first: ids that the first pass read, 0 before it.
    """

    def __init__(self, model: Any, generation_config: Any, model_kwargs: dict[str, Any]) -> None:
        self.model = model
        self.generation_config = generation_config
        self.model_kwargs, self._given = model_kwargs, dict(model_kwargs)
        self.passes = self.first = 0

    def __call__(self, input_ids: torch.Tensor, **extra: Any) -> Any:
        """Run the model on what is new in ``input_ids`` (batch, length); return its outputs."""
        model = self.model
        if self.passes == 0:
            self.first = input_ids.shape[1]
            outputs = model._prefill(
                input_ids,
                self.generation_config,
                self.model_kwargs | extra,
                is_first_iteration=True,
            )
        else:
            new = 1 if self.caches else None
            inputs = model.prepare_inputs_for_generation(
                input_ids, next_sequence_length=new, **self.model_kwargs
            )
            outputs = self._pass(inputs | extra | {"return_dict": True})
            if outputs is None:  # passes that were shared came to nothing
                again, outputs = self._again(input_ids)
                self.model_kwargs, self.passes = again.model_kwargs, again.passes
                return outputs
        self.passes += 1
        self.model_kwargs = model._update_model_kwargs_for_generation(
            outputs, self.model_kwargs, is_encoder_decoder=model.config.is_encoder_decoder
        )
        return outputs

    def _pass(self, inputs: dict[str, Any]) -> Any:
        """Run the model; a cache that has passes of its own, see models/graphed.py, repeats one of those."""
        repeat = getattr(self.model_kwargs.get("past_key_values"), "run", None)
        return self.model(**inputs) if repeat is None else repeat(self.model, inputs)

    @property
    def tolerance(self) -> float:
        """Nats by which the last logits may differ from those of a pass alone, see models/slots.py; 0: they do not."""
        return getattr(self.model_kwargs.get("past_key_values"), "tolerance", 0.0)

    @property
    def apart(self) -> bool:
        """Whether no pass is shared with other runs."""
        return getattr(self.model_kwargs.get("past_key_values"), "apart", True)

    @apart.setter
    def apart(self, apart: bool) -> None:
        cache = self.model_kwargs.get("past_key_values")
        if cache is not None and hasattr(cache, "apart"):
            cache.apart = apart

    def alone(self, input_ids: torch.Tensor) -> Any:
        """Read (batch, length) ids once more as a run alone does, pass by pass; return the last one's outputs."""
        again, outputs = self._again(input_ids)
        self.model_kwargs["past_key_values"].correct(again.model_kwargs["past_key_values"])
        return outputs

    def _again(self, input_ids: torch.Tensor) -> tuple[Forward, Any]:
        again = Forward(self.model, self.generation_config, emptied(self.model, self._given))
        for end in range(self.first, input_ids.shape[1] + 1):
            outputs = again(input_ids[:, :end])
        return again, outputs

    @property
    def caches(self) -> bool:
        """Whether anything is kept from step to step."""
        return bool(self.model_kwargs["use_cache"])

    def reorder(self, rows: torch.Tensor) -> None:
        """Let row i of the cache be what row ``rows[i]`` was; a row may be named often or never.

        Args:
            rows: (n,) rows of the cache; afterwards it has n of them.
        """
        found = cache_of(self.model_kwargs) if self.caches else None
        if found is None:
            return
        name, cache = found
        if hasattr(self.model, "_reorder_cache"):
            self.model_kwargs[name] = self.model._reorder_cache(cache, rows)
        else:
            cache.reorder_cache(rows)

    def last_logits(self, outputs: Any, device: torch.device) -> torch.Tensor:
        """Return (batch, vocab) float32 logits of the last position, copied."""
        return outputs.logits[:, -1].to(copy=True, dtype=torch.float32, device=device)


_OF_THE_TEXT = ("attention_mask", "position_ids", "cache_position", "logits_to_keep", "use_cache")


def read_besides(model_kwargs: dict[str, Any], length: int) -> dict[str, Any]:
    """Return what a decoder reads besides its text, such as a picture's pixels, for a text of so many tokens.

    Args:
        model_kwargs: as generate() prepared them.
        length: of the text.
    """
    apart = {*_OF_THE_TEXT, *CACHES, *OWN_CACHES}
    found = {name: value for name, value in model_kwargs.items() if name not in apart}
    return for_length(found, length)


def cache_of(model_kwargs: dict[str, Any]) -> tuple[str, Any] | None:
    """Return the name and the cache among a model's keyword arguments, None where there is none."""
    for name in (*CACHES, *OWN_CACHES):
        if model_kwargs.get(name) is not None:
            return name, model_kwargs[name]
    return None


def emptied(model: Any, model_kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments with a new cache, none where the model makes its own.

    Args:
        model: a generation model.
        model_kwargs: as generate() prepared them, before the first pass or after any.
    """
    from transformers import DynamicCache, EncoderDecoderCache

    found = cache_of(model_kwargs)
    if found is None:
        return dict(model_kwargs)
    if found[0] in OWN_CACHES:
        return {name: value for name, value in model_kwargs.items() if name != found[0]}
    cache = empty_cache(model)
    if model.config.is_encoder_decoder:
        # Not sized by the configuration, which may mean the encoder's depth.
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
    return model_kwargs | {found[0]: cache}


def empty_cache(model: Any) -> Any:
    """Return a new cache for a decoder: the one that its class makes, or else transformers' own."""
    from transformers import DynamicCache

    if hasattr(model, "new_cache"):
        return model.new_cache()
    return DynamicCache(config=model.config.get_text_config(decoder=True))
