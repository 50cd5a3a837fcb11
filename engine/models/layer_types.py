"""What each layer of a decoder keeps in its cache, as transformers names it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers.cache_utils import get_layer_types_and_kwargs

RUNNING_STATES = frozenset(("conv", "linear_attention", "hybrid", "hybrid_sliding"))
"""Kinds of layers that keep a running state, alone or next to keys and values."""


def layer_types(config: Any) -> Sequence[str]:
    """Return the kind of each layer's cache, such as ``full_attention``; empty if the configuration does not say.

    Args:
        config: a model's configuration.
    """
    # A StaticCache would say the same, but cannot be built for kinds without a static layer, such as DeepseekV4's.
    try:
        return get_layer_types_and_kwargs(config.get_text_config(decoder=True))[0]
    except (AttributeError, KeyError, TypeError, ValueError):
        # Without this answer a model runs alone; a configuration of an unusual form must not end its run.
        return ()
