"""How a cache forgets tokens that were read in vain: it is cropped, or a copy is put back.

A layer with a running state (Mamba, linear attention) holds no positions that could be cut off.
What it held before is kept as a copy, and what stays of the text is read again from there.
"""

from __future__ import annotations

import copy
from typing import Any

import torch


def copied(cache: Any) -> Any:
    """Return a cache that later passes over the other leave as it is."""
    twin = copy.copy(cache)
    twin.layers = [_copied(layer) for layer in cache.layers]
    return twin


def _copied(layer: Any) -> Any:
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    # An attention layer grows by new tensors and never writes into what it has; others do.
    if type(layer) in (DynamicLayer, DynamicSlidingWindowLayer):
        return copy.copy(layer)
    with torch.no_grad():
        return copy.deepcopy(layer)
