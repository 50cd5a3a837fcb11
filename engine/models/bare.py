"""Views of a model that share its weights: without generation defaults, or with separate hooks and configuration."""

from __future__ import annotations

import copy
from typing import Any

SPECIAL_IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
"""The only fields kept of a model's generation_config.

Other defaults would change a run without being in its request or trace."""


def special_ids_of(model: Any) -> Any:
    """Return a GenerationConfig with the model's special token ids only."""
    from transformers import GenerationConfig

    old = model.generation_config
    return GenerationConfig(**{name: getattr(old, name, None) for name in SPECIAL_IDS})


def bare(model: Any) -> Any:
    """Return a shallow copy of the model whose generate() inherits special token ids only.

    The copy shares weights, layers, hooks and configuration. The model itself is not modified.
    """
    twin = copy.copy(model)
    twin.generation_config = special_ids_of(model)
    # generate() refuses drafting for models with a running state; our loops can restore states.
    twin._is_stateful = False
    return twin
