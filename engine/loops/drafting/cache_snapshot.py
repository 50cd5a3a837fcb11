"""Snapshots of a cache, to undo the reading of rejected tokens.

A recurrent layer (Mamba, linear attention) stores no positions that could be cropped. Its state is
copied before a round; after a rejection it is restored and the accepted tokens are read again.
"""

from __future__ import annotations

import copy
from typing import Any

import torch


def snapshot_cache(cache: Any) -> Any:
    """Return a snapshot of the cache that later passes over the original do not change."""
    twin = copy.copy(cache)
    twin.layers = [_snapshot_layer(layer) for layer in cache.layers]
    return twin


def _snapshot_layer(layer: Any) -> Any:
    from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

    # Plain attention layers append new tensors and never write in place; other layers do.
    if type(layer) in (DynamicLayer, DynamicSlidingWindowLayer):
        return copy.copy(layer)
    with torch.no_grad():
        return copy.deepcopy(layer)
