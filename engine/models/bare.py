"""A model without its own defaults, so that what a run uses is in its request and its trace."""

from __future__ import annotations

import copy
from typing import Any

SPECIAL_IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
"""What alone is taken over from a model's generation_config."""


def special_ids_of(model: Any) -> Any:
    """Return a GenerationConfig that holds a model's special token ids and nothing else of its own."""
    from transformers import GenerationConfig

    old = model.generation_config
    return GenerationConfig(**{name: getattr(old, name, None) for name in SPECIAL_IDS})


def bare(model: Any) -> Any:
    """Return a model whose generate() inherits nothing but special token ids.

    It shares weights, layers, hooks and configuration with the model, which is not modified.
    """
    twin = copy.copy(model)
    twin.generation_config = special_ids_of(model)
    # generate() refuses drafting for every model with a running state; ours may put states back.
    twin._is_stateful = False
    return twin
