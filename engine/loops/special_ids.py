"""Special token ids of the configuration that generate() prepared."""

from __future__ import annotations

from engine.models.model_types import GenerationConfig


def eos_ids(generation_config: GenerationConfig) -> tuple[int, ...]:
    """Return the end-of-sequence ids, in the order of the configuration."""
    ids = generation_config._eos_token_tensor
    return () if ids is None else tuple(ids.flatten().tolist())


def padding_id(generation_config: GenerationConfig) -> int:
    """Return the padding id, else the first end-of-sequence id, else -1."""
    pad = generation_config._pad_token_tensor
    return int(pad.flatten()[0]) if pad is not None else next(iter(eos_ids(generation_config)), -1)
