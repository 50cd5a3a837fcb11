"""How large a model is, told by its weights: the headers of its files are read before anything is allocated.

A config.json can name any sizes. Each is capped where it is read (``files.check_config``), and here their
products are held against the number of values that the files really have.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from engine.declare.weights import EIGHT_BITS, TORCH, WeightsParams, bytes_of
from engine.errors import ModelError
from engine.settings import SETTINGS

_SPARE = 16_000_000
"""Values that a model may have beyond its weights: what little is missing is named when it is loaded."""
_MOST_TENSORS = 200_000
_PACKED = 8
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
_PACKED_BYTES = {"8bit": 1.0, "4bit": 0.5625}
"""Of one value of a quantised matrix, the scales of its blocks of 64 included."""
COMPILED = 1.5
"""Bytes that a compiled graph takes for one of its weights, which it also keeps in the order its instructions want."""
_PACKED_KINDS = ("Linear", "Conv1D")


def values_in(name: str, folder: str) -> int:
    """Return how many values the safetensors files of a model's folder hold, by their headers.

    Raises:
        ModelError: a file is damaged.
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
            raise ModelError(f"{name} has a damaged weights file: {path.name}.") from None
    if tensors > _MOST_TENSORS:
        raise ModelError(f"{name} has {tensors} tensors; at most {_MOST_TENSORS} work.")
    return total


def check_sizes(config: dict[str, Any], values: int) -> None:
    """Refuse a configuration that asks for far more than its weights can hold.

    Args:
        config: a config.json.
        values: how many the weights hold at most, see ``values_in``.

    Raises:
        ModelError: one sentence with the sizes.
    """
    for part in _parts(config):
        _check_part(part, values + _SPARE)


def bytes_held(model: Any, values: int, weights: WeightsParams) -> float:
    """Return the bytes that a model's weights take, in memory and on disk together.

    Args:
        model: on the meta device.
        values: how many its weights hold.
        weights: how they are held, with their dtype.
    """
    assert weights.dtype is not None
    each = _DTYPE_BYTES[weights.dtype]
    if weights.backend != TORCH:
        return values * (1 if weights.backend == EIGHT_BITS else each) * COMPILED
    if weights.quantization is None:
        return values * each
    head = model.get_output_embeddings()
    packed = sum(
        module.weight.numel()
        for module in model.modules()
        if type(module).__name__ in _PACKED_KINDS and module is not head
    )
    return max(0, values - packed) * each + packed * _PACKED_BYTES[weights.quantization]


def check_room(name: str, needed: float, weights: WeightsParams) -> None:
    """Refuse a model that has no room in memory.

    Args:
        name: what it is called.
        needed: bytes of its weights.
        weights: how they are held, with their dtype; what is beyond its limits waits on disk.

    Raises:
        ModelError: what it needs, and what there is.
    """
    if weights.max_memory is not None:
        needed = min(needed, sum(bytes_of(size) for _, size in weights.max_memory))
    needed, budget = needed / 1e9, SETTINGS.max_model_memory_gb
    if needed > budget:
        backend = "" if weights.backend == TORCH else weights.backend
        held = ", ".join(filter(None, (backend, weights.dtype, weights.quantization)))
        raise ModelError(
            f"{name} needs {needed:.1f} GB of memory as {held}; at most {budget:g} GB are for models here."
        )


def check_built(model: Any, values: int, *, packed: bool) -> None:
    """Refuse a model that, built without memory, turns out to be far larger than its weights.

    Args:
        model: on the meta device.
        values: how many its weights hold.
        packed: whether one value of them may stand for several of the model.

    Raises:
        ModelError: its parameters or its fixed tables are too many.
    """
    own = sum(parameter.numel() for parameter in model.parameters())
    own += sum(buffer.numel() for buffer in model.buffers())
    if own > values * (_PACKED if packed else 1) + _SPARE:
        raise ModelError(
            f"The model's config.json describes {own:,} values, and its weights hold {values:,}."
        )


def _parts(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a configuration with the configurations inside of it."""
    return [config, *(value for value in config.values() if isinstance(value, dict))]


def _check_part(config: dict[str, Any], most: int) -> None:
    width, wide = next(((n, config[n]) for n in _WIDTHS if _is_size(config.get(n))), ("", 1))
    for name in _TABLES:
        if _is_size(config.get(name)) and config[name] * wide > most:
            raise ModelError(_too_much(name, config[name], width, wide))
    several = [(name, config[name]) for name in _COUNTS if _is_size(config.get(name))]
    if math.prod(count for _, count in several) * wide > most:
        name, count = max(several, key=lambda pair: pair[1])
        raise ModelError(_too_much(name, count, width, wide))


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _too_much(name: str, value: int, width: str, wide: int) -> str:
    beside = f" beside {width} = {wide}" if width else ""
    return f"The model's config.json has {name} = {value}{beside}, more than its weights hold."
