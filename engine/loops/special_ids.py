"""Special token ids of the configuration that generate() prepared."""

# pyright: reportPrivateUsage=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# generate() keeps the prepared ids in private fields only; torch does not say what tolist() returns.
from __future__ import annotations

from engine.models.model_types import GenerationConfig


def eos_ids(generation_config: GenerationConfig) -> tuple[int, ...]:
    """Return the end-of-sequence ids, in the order of the configuration."""
    prepared = generation_config._eos_token_tensor
    if prepared is None:
        return ()
    ids: list[int] = prepared.flatten().tolist()
    return tuple(ids)


def padding_id(generation_config: GenerationConfig) -> int:
    """Return the padding id, else the first end-of-sequence id, else -1."""
    pad = generation_config._pad_token_tensor
    return int(pad.flatten()[0]) if pad is not None else next(iter(eos_ids(generation_config)), -1)
