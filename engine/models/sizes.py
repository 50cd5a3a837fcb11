"""Model sizes, from the headers of its weight files, checked before anything is allocated.

Each size in a config.json is limited when it is read (``files.check_config``), but their product may
still be huge. Here it is compared with the number of values that the files really hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.declare.weights import EIGHT_BITS, TORCH, WeightsParams, parse_size
from engine.errors import ModelError
from engine.messages import Message
from engine.models.model_types import Model
from engine.settings import SETTINGS

_TOLERATED_VALUES = 16_000_000
"""Tolerated values of a model beyond its weights; missing weights are reported when it is loaded."""
_MAX_TENSORS = 200_000
# An int32 holds eight values of 4 bits.
_MAX_PACKING = 8
_WIDTHS = ("hidden_size", "d_model", "n_embd", "dim")
_TABLES = ("vocab_size", "intermediate_size", "d_ff", "ffn_dim", "n_inner", "encoder_ffn_dim")
_COUNTS = (
    "num_hidden_layers",
    "num_layers",
    "n_layer",
    "num_decoder_layers",
    "num_experts",
    "num_local_experts",
    "n_routed_experts",
)
_DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
_QUANTIZED_BYTES = {"8bit": 1.0, "4bit": 0.5625}
"""Bytes per value of a quantised matrix, including the scales of its blocks of 64."""
COMPILED_RATIO = 1.5
"""Memory of a compiled OpenVINO graph per byte of weights: it also stores them in its kernels' layout."""
_QUANTIZED_KINDS = ("Linear", "Conv1D")


def count_values(name: str, folder: str) -> int:
    """Count the values in a folder's safetensors files, from their headers.

    Raises:
        ModelError: a file is damaged, or there are too many tensors.
    """
    from safetensors import safe_open

    total = tensors = 0
    for path in sorted(Path(folder).glob("*.safetensors")):
        try:
            with safe_open(path, "np") as opened:
                for tensor in opened.keys():  # noqa: SIM118 - it is no dict
                    total += math.prod(opened.get_slice(tensor).get_shape())
                    tensors += 1
        except Exception:  # SafetensorError derives from Exception alone
            raise ModelError(
                "{name} has a damaged weights file: {file}.", name=name, file=path.name
            ) from None
    if tensors > _MAX_TENSORS:
        raise ModelError(
            "{name} has {n} tensors; at most {most} work.", name=name, n=tensors, most=_MAX_TENSORS
        )
    return total


def check_sizes(config: Mapping[str, object], values: int) -> None:
    """Check that a configuration does not describe far more than its weights can hold.

    Args:
        config: the content of a config.json.
        values: most values the weights can hold, see ``count_values``.

    Raises:
        ModelError: naming the sizes that are too large.
    """
    for part in _nested_configs(config):
        _check_config_sizes(part, values + _TOLERATED_VALUES)


def estimate_bytes(model: Model, values: int, weights: WeightsParams) -> float:
    """Estimate the bytes of a model's weights, in memory and offloaded to disk together.

    Args:
        model: the model on the meta device.
        values: number of values in its weights.
        weights: settings of the weights, with their dtype.
    """
    assert weights.dtype is not None
    each = _DTYPE_BYTES[weights.dtype]
    if weights.backend != TORCH:
        return values * (1 if weights.backend == EIGHT_BITS else each) * COMPILED_RATIO
    if weights.quantization is None:
        return values * each
    # transformers leaves the output head unquantised.
    head = model.get_output_embeddings()
    packed = sum(
        module.weight.numel()
        for module in model.modules()
        if type(module).__name__ in _QUANTIZED_KINDS and module is not head
    )
    return max(0, values - packed) * each + packed * _QUANTIZED_BYTES[weights.quantization]


def check_memory(name: str, needed: float, weights: WeightsParams) -> None:
    """Check that a model fits in the memory budget.

    Args:
        name: the model's name.
        needed: bytes of its weights.
        weights: settings of the weights, with their dtype. Weights beyond its ``max_memory`` are
            offloaded to disk and do not count.

    Raises:
        ModelError: it does not fit; the message has both sizes.
    """
    if weights.max_memory is not None:
        needed = min(needed, sum(parse_size(size) for _, size in weights.max_memory))
    needed, budget = needed / 1e9, SETTINGS.max_model_memory_gb
    if needed > budget:
        backend = "" if weights.backend == TORCH else weights.backend
        precision = ", ".join(filter(None, (backend, weights.dtype, weights.quantization)))
        raise ModelError(
            "{name} needs {needed} GB of memory as {held}; at most {most} GB are for models here.",
            name=name,
            needed=f"{needed:.1f}",
            held=precision,
            most=f"{budget:g}",
        )


def check_meta_size(model: Model, values: int, *, packed: bool) -> None:
    """Check that a model built on the meta device is not far larger than its weights.

    Args:
        model: the model on the meta device.
        values: number of values in its weights.
        packed: whether the weights are quantised, so that one stored value may hold several.

    Raises:
        ModelError: its parameters and buffers have too many values.
    """
    own = sum(parameter.numel() for parameter in model.parameters())
    own += sum(buffer.numel() for buffer in model.buffers())
    if own > values * (_MAX_PACKING if packed else 1) + _TOLERATED_VALUES:
        raise ModelError(
            "The model's config.json describes {own} values, and its weights hold {values}.",
            own=f"{own:,}",
            values=f"{values:,}",
        )


def _nested_configs(config: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List a configuration and the configurations nested in it."""
    return [config, *(value for value in config.values() if isinstance(value, dict))]


def _check_config_sizes(config: Mapping[str, Any], most: int) -> None:
    width, wide = next(((n, config[n]) for n in _WIDTHS if _is_size(config.get(n))), ("", 1))
    for name in _TABLES:
        if _is_size(config.get(name)) and config[name] * wide > most:
            raise ModelError(_too_large_message(name, config[name], width, wide))
    # Each layer, and each expert in it, has at least one row of this width.
    several = [(name, config[name]) for name in _COUNTS if _is_size(config.get(name))]
    if math.prod(count for _, count in several) * wide > most:
        name, count = max(several, key=lambda pair: pair[1])
        raise ModelError(_too_large_message(name, count, width, wide))


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _too_large_message(name: str, value: int, width: str, wide: int) -> str:
    if width:
        return Message(
            "The model's config.json has {name} = {value} with {width} = {wide}, more than its "
            "weights contain.",
            name=name,
            value=value,
            width=width,
            wide=wide,
        )
    return Message(
        "The model's config.json has {name} = {value}, more than its weights hold.",
        name=name,
        value=value,
    )
