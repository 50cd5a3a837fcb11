"""Checks of a model's folder: file formats, and sizes within limits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from engine.errors import ModelError, format_value
from engine.sources.hub_cache import WEIGHTS_INDEX

_SHARD = re.compile(r"^[A-Za-z0-9][\w.-]*\.safetensors$", re.ASCII)
_GENERATION_CONFIG = "generation_config.json"
_MAX_CONFIG_BYTES = 1_000_000
SPECIAL_IDS = ("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id")
"""Fields of a generation_config that a run keeps; others would change it without being in its trace."""
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


def read_json_object(path: Path, max_bytes: int = 100_000_000) -> dict[str, Any]:
    """Return a file's JSON object, or an empty one if it is missing, damaged or too large."""
    try:
        if path.stat().st_size > max_bytes:
            return {}
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def check_folder(folder: str) -> dict[str, Any]:
    """Check a model folder's configuration and weights index; return its config.json.

    Raises:
        ModelError: as ``check_config``, or there are no safetensors weights.
    """
    config = check_config(folder)
    _check_generation_config(Path(folder) / _GENERATION_CONFIG)
    _check_adapter_config(Path(folder) / "adapter_config.json")
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
                "The model's {file} names {name}, which is no safetensors file in the same folder.",
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
        config = json.loads((Path(folder) / "config.json").read_bytes()[:_MAX_CONFIG_BYTES])
    except (OSError, ValueError, RecursionError):
        raise ModelError("The model's config.json is not valid.") from None
    if not isinstance(config, dict):
        raise ModelError("The model's config.json is not valid.")
    for key in config:
        if _runs_own_code(key, config.get("model_type")):
            raise ModelError(
                "The model's config.json asks for {key}, which would run its own code.", key=key
            )
    _check_special_ids("config.json", config)
    for key, cap in _SIZE_LIMITS.items():
        value = config.get(key)
        if value is not None and not (type(value) is int and 0 < value <= cap):
            raise ModelError(
                "The model's config.json has {key} = {value}; it must be a whole number from 1 to {cap}.",
                key=key,
                value=format_value(value),
                cap=cap,
            )
    return config


def _runs_own_code(key: str, model_type: object) -> bool:
    """Return whether a field of a config.json asks for code that the folder or the hub would bring."""
    if key == "auto_map":
        from transformers import CONFIG_MAPPING

        # Of a kind that transformers has itself, it takes its own class and ignores the field.
        return not isinstance(model_type, str) or model_type not in CONFIG_MAPPING
    # The latter is a note that transformers itself wrote into files.
    return key.startswith("_attn") and key != "_attn_implementation_autoset"


def _check_generation_config(path: Path) -> None:
    """Check the fields that are kept of a generation_config.json, if there is one.

    Raises:
        ModelError: it is no JSON object, or a special token has no id.
    """
    try:
        values = json.loads(path.read_bytes()[:_MAX_CONFIG_BYTES])
    except (OSError, json.JSONDecodeError, UnicodeDecodeError):
        return  # transformers goes on without a file that it cannot read
    except (ValueError, RecursionError):
        values = None  # endless digits or levels end its load
    if not isinstance(values, dict):
        raise ModelError("The model's {file} is not valid.", file=path.name)
    _check_special_ids(path.name, values)


def _check_adapter_config(path: Path) -> None:
    """Check an adapter_config.json next to a model: transformers then loads the adapter into it."""
    if not path.is_file():
        return
    if "peft_type" not in read_json_object(path, _MAX_CONFIG_BYTES):
        raise ModelError("The model's {file} is not valid.", file=path.name)


def _check_special_ids(file: str, values: Mapping[str, Any]) -> None:
    for name in SPECIAL_IDS:
        value = values.get(name)
        # A text may have several ends, but only one token pads it.
        listed = value if isinstance(value, list) and name != "pad_token_id" else [value]
        if value is not None and not (listed and all(map(_may_be_id, listed))):
            raise ModelError(
                "The model's {file} has {key} = {value}, which is no token id.",
                file=file,
                key=name,
                value=format_value(value),
            )


def _may_be_id(value: object) -> bool:
    # torch stores ids in 64 bits; one beyond the vocabulary is never met, and changes nothing.
    return type(value) is int and abs(value) < 2**63


def find_odd_field(
    file: str, values: Mapping[str, Any], build: Callable[[dict[str, Any]], object]
) -> ModelError | None:
    """Return the error that names the field with which a configuration cannot be built.

    Args:
        file: name of the file.
        values: its fields.
        build: builds a configuration from some of the fields, and raises for the odd one.
    """
    for name, value in values.items():
        try:
            build({name: value})
        except Exception as error:  # a configuration may break any rule of its class
            return odd_field_error(file, name, value, error)
    return None


def odd_field_error(file: str, name: str, value: object, error: BaseException) -> ModelError:
    """Return the error for a field of a model's configuration that transformers cannot use."""
    return ModelError(
        "The model's {file} has {key} = {value}, which transformers cannot use ({kind}).",
        file=file,
        key=name,
        value=format_value(value),
        kind=type(error).__name__,
    )


def find_odd_generation_field(folder: str) -> ModelError | None:
    """Return the error that names the field that spoils a folder's generation_config.json, if any."""
    from transformers import GenerationConfig

    try:
        values = json.loads((Path(folder) / _GENERATION_CONFIG).read_bytes()[:_MAX_CONFIG_BYTES])
    except (OSError, ValueError, RecursionError):
        return None
    return find_odd_field(_GENERATION_CONFIG, values, GenerationConfig.from_dict)
