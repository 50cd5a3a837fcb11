"""Checks of a model's folder: file formats, and sizes within limits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from engine.errors import ModelError, format_value
from engine.sources.hub_cache import WEIGHTS_INDEX

_SHARD = re.compile(r"^[A-Za-z0-9][\w.-]*\.safetensors$", re.ASCII)
NO_WEIGHTS_MESSAGE = "The model has no safetensors weights; other formats are not loaded."
_SIZE_LIMITS = {
    "num_hidden_layers": 200,
    "num_layers": 200,
    "n_layer": 200,
    "hidden_size": 32_768,
    "d_model": 32_768,
    "n_embd": 32_768,
    "vocab_size": 1_000_000,
    "max_position_embeddings": 10_000_000,
    "num_attention_heads": 1024,
}


def check_folder(folder: str) -> dict[str, Any]:
    """Check a model folder's configuration and weights index; return its config.json.

    Raises:
        ModelError: as ``check_config``, or there are no safetensors weights.
    """
    config = check_config(folder)
    if not any(Path(folder).glob("*.safetensors")):
        raise ModelError(NO_WEIGHTS_MESSAGE)
    _check_index(Path(folder) / WEIGHTS_INDEX)
    return config


def _check_index(path: Path) -> None:
    """Check that a weights index names only existing safetensors files in its own folder."""
    if not path.is_file():
        return
    try:
        named = set(json.loads(path.read_bytes())["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError("The model's {file} is not valid.", file=path.name) from None
    for name in named:
        if not (isinstance(name, str) and _SHARD.match(name)):
            raise ModelError(
                "The model's {file} names {name}, which is no safetensors file beside it.",
                file=path.name,
                name=format_value(name),
            )
        if not (path.parent / name).is_file():
            raise ModelError("The model lacks the weights file {name}.", name=name)


def check_config(folder: str) -> dict[str, Any]:
    """Read and check a folder's config.json.

    Raises:
        ModelError: it is not valid JSON, has sizes above the limits, or would run the model's own code.
    """
    try:
        config = json.loads((Path(folder) / "config.json").read_bytes()[:1_000_000])
    except (OSError, ValueError, RecursionError):
        raise ModelError("The model's config.json is not valid.") from None
    if not isinstance(config, dict):
        raise ModelError("The model's config.json is not valid.")
    for key in config:
        if key == "auto_map" or key.startswith("_attn"):
            raise ModelError(
                "The model's config.json asks for {key}, which would run its own code.", key=key
            )
    for key, cap in _SIZE_LIMITS.items():
        value = config.get(key)
        if value is not None and not (isinstance(value, int) and 0 < value <= cap):
            raise ModelError(
                "The model's config.json has {key} = {value}; at most {cap} works.",
                key=key,
                value=format_value(value),
                cap=cap,
            )
    return config
