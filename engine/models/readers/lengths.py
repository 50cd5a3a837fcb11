"""Inputs of a model that have a number for each token of its text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

_FOR_EACH = ("token_type_ids", "mm_token_type_ids")
"""Inputs with a number for each token of the prompt."""


def for_length(inputs: Mapping[str, Any], length: int) -> dict[str, Any]:
    """Return inputs that have a number for each token, for a text that goes on after their prompt.

    What is new is text, which every model that has such numbers counts as 0.

    Args:
        inputs: of a model, each with a batch of one.
        length: of the text.
    """
    made = dict(inputs)
    for name in _FOR_EACH:
        value = made.get(name)
        if value is not None and value.shape[-1] < length:
            made[name] = torch.nn.functional.pad(value, (0, length - value.shape[-1]))
    return made
