"""Padding of model inputs that have one value per token."""

from __future__ import annotations

from collections.abc import Mapping

import torch

_PER_TOKEN_INPUTS = ("token_type_ids", "mm_token_type_ids")
"""Inputs with one value per token of the prompt."""


def pad_token_types(inputs: Mapping[str, torch.Tensor], length: int) -> dict[str, torch.Tensor]:
    """Return the inputs with their per-token values padded to a longer text.

    New tokens are text, which has type 0 in every model with such inputs.

    Args:
        inputs: a model's inputs, with batch size 1.
        length: length of the text in tokens.
    """
    padded = dict(inputs)
    for name in _PER_TOKEN_INPUTS:
        value = padded.get(name)
        if value is not None and value.shape[-1] < length:
            padded[name] = torch.nn.functional.pad(value, (0, length - value.shape[-1]))
    return padded
