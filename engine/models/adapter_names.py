"""LoRA adapters as models: which folders are one, what their adapter_config.json says, and what they are merged of."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError, shown
from engine.models.made_names import Sources

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
ON = " on "
"""Between an adapter and its base, where a name says both."""
_PICKLE = "adapter_model.bin"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")
"""One of them is what makes a tokenizer; what only configures one goes with it."""
_TOKENIZER_FILES = (
    *_TOKENIZERS,
    "tokenizer_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "added_tokens.json",
)
TEMPLATE = "chat_template.jinja"
DEFAULTS = "generation_config.json"
_MOST_BYTES = 1_000_000
_MOST_RANK = 4096
_MOST_WORDS = 200
_TASKS = {"CAUSAL_LM": False, "SEQ_2_SEQ_LM": True}
"""Kind of task -> whether its models have an encoder."""
_OTHERWISE = {
    "megatron_config": "which would run code of a module that it names",
    "layer_replication": "which gives the model other layers than its base has",
    "alora_invocation_tokens": "which adapts a part of a text alone and cannot be merged",
    "arrow_config": "which chooses between adapters for each token and cannot be merged",
}
"""Field -> why an adapter that uses it is refused."""


@dataclass(frozen=True)
class LoraAdapter:
    """What an adapter_config.json says.

    Attributes:
        r: rank of its matrices.
        lora_alpha: what their product is scaled with, over ``r``.
        target_modules: names of the layers that it adapts, or the one pattern for them.
        base: the model that it was trained on, as its owner called it; None where it does not say.
        revision: of that model.
        encodes: whether that is an encoder-decoder.
    """

    r: int
    lora_alpha: float
    target_modules: tuple[str, ...]
    base: str | None
    revision: str | None
    encodes: bool


def holds_adapter(folder: str | Path) -> bool:
    """Return whether a folder is that of an adapter and of no whole model."""
    try:
        return (Path(folder) / CONFIG).is_file() and not (Path(folder) / "config.json").is_file()
    except (OSError, ValueError):  # a name may hold what no path can
        return False


def is_adapter_folder(name: str) -> bool:
    """Return whether a name is the absolute path of an adapter's folder."""
    return Path(name).is_absolute() and holds_adapter(name)


def read_adapter(name: str, folder: str | Path) -> LoraAdapter:
    """Return what a folder's adapter_config.json says.

    Args:
        name: what the model is called.
        folder: the adapter's.

    Raises:
        ModelError: it is not valid, or of a kind that is not merged here.
    """
    config = _config(name, folder)
    kind, task = config.get("peft_type"), config.get("task_type")
    if kind != "LORA":
        raise ModelError(
            f"{name} has peft_type = {shown(kind)} in its {CONFIG}; only LORA adapters work."
        )
    if task not in _TASKS:
        raise ModelError(
            f"{name} has task_type = {shown(task)} in its {CONFIG}; only {' and '.join(_TASKS)} work."
        )
    for field, why in _OTHERWISE.items():
        if config.get(field):
            raise ModelError(f"{name} asks for {field} in its {CONFIG}, {why}.")
    for field, rank in _ranks(config):
        if type(rank) is not int or not 0 < rank <= _MOST_RANK:
            raise ModelError(
                f"{name} has {field} = {shown(rank)} in its {CONFIG}; from 1 to {_MOST_RANK} works."
            )
    alpha: Any = config.get("lora_alpha")
    if type(alpha) not in (int, float) or not math.isfinite(alpha):
        raise ModelError(
            f"{name} has lora_alpha = {shown(alpha)} in its {CONFIG}; it must be a number."
        )
    base, revision = config.get("base_model_name_or_path"), config.get("revision")
    return LoraAdapter(
        r=config["r"],
        lora_alpha=alpha,
        target_modules=_targets(name, config.get("target_modules")),
        base=base if _is_text(base) else None,
        revision=revision if _is_text(revision) else None,
        encodes=_TASKS[task],
    )


def check_weights(name: str, folder: str | Path) -> None:
    """Refuse an adapter without weights that are safe to read.

    Raises:
        ModelError: what it has instead.
    """
    if (Path(folder) / WEIGHTS).is_file():
        return
    if (Path(folder) / _PICKLE).is_file():
        raise ModelError(
            f"{name} keeps its weights as {_PICKLE}, a pickle that could run code; only {WEIGHTS} is loaded."
        )
    raise ModelError(f"{name} has an {CONFIG} and no {WEIGHTS} beside it.")


def tokenizer_files(adapter: str | Path, base: str | Path) -> list[Path]:
    """Return the tokenizer's files of a merged model: the adapter's own where it has one, else its base's."""
    own = any((Path(adapter) / name).is_file() for name in _TOKENIZERS)
    found = [Path(adapter if own else base) / name for name in _TOKENIZER_FILES]
    template = next(
        (p for p in (Path(adapter) / TEMPLATE, Path(base) / TEMPLATE) if p.is_file()), None
    )
    return [path for path in (*found, template) if path is not None and path.is_file()]


def sources_of(adapter: str, base: str) -> Sources:
    """Return what a merged model is made of.

    Args:
        adapter: the adapter's folder.
        base: its base's folder.
    """
    own = [Path(adapter) / CONFIG, Path(adapter) / WEIGHTS]
    theirs = [Path(base) / "config.json", Path(base) / DEFAULTS, *Path(base).glob("*.safetensors*")]
    found = {f"adapter/{path.name}": path for path in own}
    found |= {f"base/{path.name}": path for path in theirs if path.is_file()}
    return found | {f"tokenizer/{path.name}": path for path in tokenizer_files(adapter, base)}


def _config(name: str, folder: str | Path) -> dict[str, Any]:
    try:
        config = json.loads((Path(folder) / CONFIG).read_bytes()[:_MOST_BYTES])
    except (OSError, ValueError, RecursionError):
        config = None
    if not isinstance(config, dict):
        raise ModelError(f"{name} has an {CONFIG} that is not valid.")
    return config


def _ranks(config: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return every rank that a configuration asks for, with the field that does."""
    pattern = config.get("rank_pattern") or {}
    other = pattern.values() if isinstance(pattern, dict) else [pattern]
    return [("r", config.get("r")), *(("rank_pattern", rank) for rank in other)]


def _targets(name: str, said: Any) -> tuple[str, ...]:
    targets = [said] if isinstance(said, str) else said or []
    if not isinstance(targets, list) or not all(isinstance(target, str) for target in targets):
        raise ModelError(
            f"{name} has target_modules = {shown(said)} in its {CONFIG}; it must be a list of names."
        )
    return tuple(sorted(targets))


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MOST_WORDS
