"""LoRA adapters: folder detection, parsed adapter_config.json, and the files a merge depends on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError, format_value
from engine.settings import SETTINGS
from engine.sources.build_key import BuildFiles

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
BASE_SEPARATOR = " on "
"""Separates the adapter from its base in a model name.

A word, because signs such as ``@`` or ``+`` may occur in paths."""
_PICKLE = "adapter_model.bin"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
"""A folder with one of these files has its own tokenizer; other files only configure it."""
_TOKENIZER_FILES = (
    *_TOKENIZERS,
    "tokenizer_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
)
TEMPLATE = "chat_template.jinja"
GENERATION_CONFIG = "generation_config.json"
_MAX_BYTES = 1_000_000
_MAX_RANK = 4096
_MAX_CHARS = 200
_TASKS = {"CAUSAL_LM": False, "SEQ_2_SEQ_LM": True}
"""PEFT task type -> whether its models are encoder-decoders."""
_UNSUPPORTED_FIELDS = {
    "megatron_config": "which would run code of a module that it names",
    "layer_replication": "which gives the model other layers than its base has",
    "alora_invocation_tokens": "which adapts only some of a text and cannot be merged",
    "trainable_token_indices": "which gives single tokens new embeddings; merge it with peft's "
    "merge_and_unload() and give the folder of the merged model",
    "arrow_config": "which chooses between adapters for each token and cannot be merged",
}
"""Field of adapter_config.json -> why an adapter that sets it is refused."""


@dataclass(frozen=True)
class LoraAdapter:
    """The fields of an adapter_config.json.

    Attributes:
        r: rank of the LoRA matrices.
        lora_alpha: their product is scaled by ``lora_alpha / r``.
        target_modules: names of the adapted layers, or one pattern for them.
        base: the model it was trained on, as its owner named it; None if missing.
        revision: revision of that model; None if missing.
        encodes: whether that model is an encoder-decoder.
    """

    r: int
    lora_alpha: float
    target_modules: tuple[str, ...]
    base: str | None
    revision: str | None
    encodes: bool


def has_adapter_files(folder: str | Path) -> bool:
    """Return True if the folder holds an adapter and no complete model."""
    try:
        return (Path(folder) / CONFIG).is_file() and not (Path(folder) / "config.json").is_file()
    except (OSError, ValueError):  # the name may not be a valid path, e.g. with a null byte
        return False


def check_merge_allowed(place: str) -> None:
    """Check that this deployment merges adapters.

    Raises:
        ModelError: it is a public deployment.
    """
    if SETTINGS.public:
        raise ModelError(
            "{name} is a LoRA adapter, and none is merged on a public deployment.", name=place
        )


def read_adapter(name: str, folder: str | Path) -> LoraAdapter:
    """Read and check a folder's adapter_config.json.

    Args:
        name: the model's name, for errors.
        folder: the adapter's folder.

    Raises:
        ModelError: the file is not valid, or the adapter is of a kind that is not supported.
    """
    config = _read_config(name, folder)
    task = _check_kind(name, config)
    for field, rank in _list_ranks(config):
        # type() instead of isinstance: bool is a subclass of int.
        if type(rank) is not int or not 0 < rank <= _MAX_RANK:
            raise ModelError(
                "{name} has {field} = {rank} in its {config}; from 1 to {most} works.",
                name=name,
                field=field,
                rank=format_value(rank),
                config=CONFIG,
                most=_MAX_RANK,
            )
    alpha: Any = config.get("lora_alpha")
    if type(alpha) not in (int, float) or not math.isfinite(alpha):
        raise ModelError(
            "{name} has lora_alpha = {alpha} in its {config}; it must be a number.",
            name=name,
            alpha=format_value(alpha),
            config=CONFIG,
        )
    base, revision = config.get("base_model_name_or_path"), config.get("revision")
    return LoraAdapter(
        r=config["r"],
        lora_alpha=alpha,
        target_modules=_read_targets(name, config.get("target_modules")),
        base=base if _is_text(base) else None,
        revision=revision if _is_text(revision) else None,
        encodes=_TASKS[task],
    )


def _check_kind(name: str, config: dict[str, Any]) -> str:
    """Return the adapter's task after checking that its kind is supported."""
    kind, task = config.get("peft_type"), config.get("task_type")
    if kind != "LORA":
        raise ModelError(
            "{name} has peft_type = {kind} in its {config}; only LORA adapters work.",
            name=name,
            kind=format_value(kind),
            config=CONFIG,
        )
    if task not in _TASKS:
        raise ModelError(
            "{name} has task_type = {task} in its {config}; only {tasks} work.",
            name=name,
            task=format_value(task),
            config=CONFIG,
            tasks=" and ".join(_TASKS),
        )
    for field, why in _UNSUPPORTED_FIELDS.items():
        if config.get(field):
            raise ModelError(
                "{name} asks for {field} in its {config}, {why}.",
                name=name,
                field=field,
                config=CONFIG,
                why=why,
            )
    return task


def check_weights(name: str, folder: str | Path) -> None:
    """Check that the adapter has safetensors weights.

    Raises:
        ModelError: the weights are missing or stored as a pickle.
    """
    if (Path(folder) / WEIGHTS).is_file():
        return
    if (Path(folder) / _PICKLE).is_file():
        raise ModelError(
            "{name} keeps its weights as {pickle}, a pickle that could run code; only "
            "{weights} is loaded.",
            name=name,
            pickle=_PICKLE,
            weights=WEIGHTS,
        )
    raise ModelError(
        "{name} has an {config} but no {weights} in the same folder.",
        name=name,
        config=CONFIG,
        weights=WEIGHTS,
    )


def tokenizer_files(adapter: str | Path, base: str | Path) -> list[Path]:
    """List a merged model's tokenizer files: the adapter's own if it has a tokenizer, else its base's."""
    own = any((Path(adapter) / name).is_file() for name in _TOKENIZERS)
    found = [Path(adapter if own else base) / name for name in _TOKENIZER_FILES]
    template = next(
        (p for p in (Path(adapter) / TEMPLATE, Path(base) / TEMPLATE) if p.is_file()), None
    )
    return [path for path in (*found, template) if path is not None and path.is_file()]


def adapter_build_files(adapter: str, base: str) -> BuildFiles:
    """Return the files whose content decides a merged model, by label.

    The base is identified by content, so it does not matter where it came from.

    Args:
        adapter: the adapter's folder.
        base: the base model's folder.
    """
    own = [Path(adapter) / CONFIG, Path(adapter) / WEIGHTS]
    theirs = [
        Path(base) / "config.json",
        Path(base) / GENERATION_CONFIG,
        # With the index, which says in which file each weight is.
        *Path(base).glob("*.safetensors*"),
    ]
    found = {f"adapter/{path.name}": path for path in own}
    found |= {f"base/{path.name}": path for path in theirs if path.is_file()}
    return found | {f"tokenizer/{path.name}": path for path in tokenizer_files(adapter, base)}


def _read_config(name: str, folder: str | Path) -> dict[str, Any]:
    try:
        # A file that is too long is cut, so that it is no valid JSON.
        config = json.loads((Path(folder) / CONFIG).read_bytes()[:_MAX_BYTES])
    except (OSError, ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise ModelError("{name} has an {config} that is not valid.", name=name, config=CONFIG)
    return config


def _list_ranks(config: Mapping[str, object]) -> list[tuple[str, Any]]:
    """List (field, rank) for every rank in the configuration."""
    pattern = config.get("rank_pattern") or {}
    other = pattern.values() if isinstance(pattern, dict) else [pattern]
    return [("r", config.get("r")), *(("rank_pattern", rank) for rank in other)]


def _read_targets(name: str, said: object) -> tuple[str, ...]:
    targets = [said] if isinstance(said, str) else said or []
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        raise ModelError(
            "{name} has target_modules = {said} in its {config}; it must be a list of names.",
            name=name,
            said=format_value(said),
            config=CONFIG,
        )
    return tuple(sorted(targets))


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_CHARS
