"""Kinds of the cache layers of a decoder, by transformers' names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PretrainedConfig

RUNNING_STATES = frozenset(("conv", "linear_attention", "hybrid", "hybrid_sliding"))
"""Kinds of layers that store a running state, with or without keys and values."""

WITHOUT_KEYS = frozenset(("conv", "linear_attention", "dummy"))
"""Kinds of layers that store no keys and values."""


def has_growing_rotary_tables(config: PretrainedConfig) -> bool:
    """Return True if rotary positions change with the length of the text, in tables that the modules keep.

    Args:
        config: a model's configuration.
    """
    rope = getattr(config.get_text_config(decoder=True), "rope_parameters", None) or {}
    kinds = {rope.get("rope_type")} | {
        value.get("rope_type") for value in rope.values() if isinstance(value, dict)
    }
    return not kinds.isdisjoint(("dynamic", "longrope"))


def cache_layer_types(config: PretrainedConfig) -> Sequence[str]:
    """Return the kinds of the layers that transformers gives a DynamicCache; may raise anything."""
    # Not at the top: the page is served before transformers is loaded.
    from transformers.cache_utils import get_layer_types_and_kwargs

    return get_layer_types_and_kwargs(config)[0]


def layer_types(config: PretrainedConfig) -> Sequence[str]:
    """Return the kind of each layer's cache, such as ``full_attention``; empty if it cannot be determined.

    Args:
        config: a model's configuration.
    """
    # A StaticCache has the same kinds but cannot be built without static layers, e.g. for DeepseekV4.
    try:
        return cache_layer_types(config.get_text_config(decoder=True))
    except (AttributeError, KeyError, TypeError, ValueError):
        # An unusual configuration must not end a run; the model then runs unbatched.
        return ()
