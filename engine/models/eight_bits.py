"""Weights at 8 bits a number: how the smallest parts of the embedded models are stored."""

from __future__ import annotations

import torch

SCALE = ".scale"
_LIMIT = 127


def pack(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a state as stored: matrices as int8 with one float16 scale per row, the rest as float16."""
    packed: dict[str, torch.Tensor] = {}
    for name, value in state.items():
        if value.ndim != 2:
            packed[name] = value.half()
            continue
        # At least the smallest useful float16, as a row of zeros would divide by 0.
        scale = (value.float().abs().amax(1) / _LIMIT).clamp_min(1e-7).half()
        packed[name] = (
            (value.float() / scale.float()[:, None]).round().clamp(-_LIMIT, _LIMIT).char()
        )
        packed[name + SCALE] = scale
    return packed


def unpack(packed: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the float32 state of what ``pack`` made."""
    return {
        name: value.float() * packed[name + SCALE].float()[:, None]
        if name + SCALE in packed
        else value.float()
        for name, value in packed.items()
        if not name.endswith(SCALE)
    }
