"""From a model's name to a checked local folder: allowed names, size limits and file formats."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from engine.errors import ModelError, format_value
from engine.messages import Message
from engine.models.gguf_paths import find_converted_gguf, is_gguf
from engine.settings import SETTINGS
from engine.sources.build_key import find_build
from engine.sources.catalogue import CATALOGUE, SOURCE_FILE
from engine.sources.installable import INSTALLABLE, fetch_command
from engine.sources.lora_adapters import (
    BASE_SEPARATOR,
    CONFIG,
    adapter_sources,
    has_adapter_files,
    is_adapter_folder,
    read_adapter,
)

_HUB_ID = re.compile(
    r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}(@[A-Za-z0-9][\w.-]{0,95}(/[\w.-]{1,96}){0,3})?",
    re.ASCII,
)
DOWNLOAD_PATTERNS = ["*.safetensors", "*.json", "tokenizer*", "*.txt", "*.model", "*.jinja"]
"""Files to download from a repository: safetensors weights, configuration, tokenizer, chat template; no code."""
WEIGHTS_INDEX = "model.safetensors.index.json"
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


def check_name(name: Any) -> None:
    """Check without the network that a model's name is allowed and that a local one exists.

    Raises:
        ModelError: what is wrong with the name.
    """
    if (
        is_hub_id(name)
        or is_gguf(name)
        or (isinstance(name, str) and find_non_hub_folder(name) is not None)
    ):
        return
    adapter = parse_adapter_name(name)
    if adapter is not None:
        if adapter[1] is not None:
            check_name(adapter[1])
        return
    if isinstance(name, str) and name in CATALOGUE and CATALOGUE[name].embedded:
        raise ModelError("The embedded model {name} is not in this installation.", name=name)
    if isinstance(name, str) and name in CATALOGUE and CATALOGUE[name].brought:
        raise ModelError(
            "The model {name} is not on this machine yet: {how} brings it.",
            name=name,
            how=fetch_command(name),
        )
    catalogue = ", ".join(e.name for e in CATALOGUE.values() if e.folder)
    if SETTINGS.public:
        raise ModelError(
            "model = {name} is not allowed: it must be a name of the catalogue ({names}), a hub id "
            "like owner/name or owner/name@revision.",
            name=format_value(name),
            names=catalogue,
        )
    raise ModelError(
        "model = {name} is not allowed: it must be a name of the catalogue ({names}), a hub id "
        "like owner/name or owner/name@revision, or the absolute path of a model folder, a GGUF "
        "file or a LoRA adapter.",
        name=format_value(name),
        names=catalogue,
    )


def is_hub_id(name: Any) -> bool:
    """Return True if the name has the form of a hub id: ``owner/name`` or ``owner/name@revision``."""
    if not isinstance(name, str) or (name in CATALOGUE and CATALOGUE[name].folder):
        return False
    return bool(_HUB_ID.fullmatch(name)) and ".." not in name


def split_revision(name: str) -> tuple[str, str | None]:
    """Split a hub id into its repository and revision; None for the newest revision."""
    repository, _, revision = name.partition("@")
    return repository, revision or None


def local_folder(name: str) -> str | None:
    """Return the folder of a model that is on this machine, else None; nothing is fetched or built."""
    adapter = parse_adapter_name(name)
    if adapter is not None:
        return _merged_folder(name, *adapter)
    if is_hub_id(name):
        found = find_cached_snapshot(name)
        return None if found is None or has_adapter_files(found[0]) else found[0]
    return find_non_hub_folder(name)


def parse_adapter_name(name: Any) -> tuple[str, str | None] | None:
    """Parse a LoRA adapter's name into the adapter's location and its base, if the name gives one.

    Args:
        name: ``ADAPTER`` or ``ADAPTER on BASE``. The adapter is a folder or a hub id; a hub id
            without a base is recognised as an adapter only once it is fetched.

    Returns:
        (folder or hub id, base or None); None if it is not an adapter, and always on a public Space.
    """
    if not isinstance(name, str) or SETTINGS.public:
        return None
    if is_adapter_folder(name):
        return name, None
    # A path may contain the separator itself, so every split is tried.
    for found in re.finditer(re.escape(BASE_SEPARATOR), name):
        place, base = name[: found.start()], name[found.end() :]
        if is_adapter_folder(place) or is_hub_id(place):
            return place, base
    if is_hub_id(name) and has_adapter_files((find_cached_snapshot(name) or ("",))[0]):
        return name, None
    return None


def check_merge_allowed(place: str) -> None:
    """Check that this deployment merges adapters.

    Raises:
        ModelError: it is a public deployment.
    """
    if SETTINGS.public:
        raise ModelError(
            "{name} is a LoRA adapter, and none is merged on a public deployment.", name=place
        )


def find_base_name(place: str, folder: str, said: str | None) -> str:
    """Return the name of an adapter's base model.

    If a hub model is installed here under a catalogue name only, that name is returned.

    Args:
        place: the adapter's name.
        folder: the adapter's folder.
        said: the base given in the name; None for the one in adapter_config.json.

    Raises:
        ModelError: no usable base is named, or the adapter's files are not valid.
    """
    if not has_adapter_files(folder):
        raise ModelError(
            "{name} is no LoRA adapter: it has no {config}, or it is a whole model.",
            name=place,
            config=CONFIG,
        )
    config = read_adapter(place, folder)
    base = said or config.base
    if base is None:
        raise ModelError(
            "{name} is a LoRA adapter that does not say of which base: {how}.",
            name=place,
            how=_base_hint(place),
        )
    if parse_adapter_name(base) is not None:
        raise ModelError(
            "{name} is a LoRA adapter of {base}, which is one itself: {how}.",
            name=place,
            base=base,
            how=_base_hint(place),
        )
    if is_hub_id(base):
        # The same model may be installed under a catalogue name, e.g. from the package index.
        brought = next((n for n, source in INSTALLABLE.items() if source.hub == base), base)
        if (
            brought != base
            and find_non_hub_folder(brought) is not None
            and find_cached_snapshot(base) is None
        ):
            return brought
        asked = f"@{config.revision}" if said is None and config.revision else ""
        return base if "@" in base else f"{base}{asked}"
    try:
        check_name(base)
    except ModelError:
        how = (
            Message("{how} brings it", how=fetch_command(base))
            if base in INSTALLABLE
            else "bring it there"
        )
        raise missing_base_error(place, base, how) from None
    return base


def missing_base_error(place: str, base: str, how: str, reason: str = "") -> ModelError:
    """Return the error for an adapter whose base is missing.

    Args:
        place: the adapter's name.
        base: the name of its base.
        how: how to get the base, as part of a sentence.
        reason: why it could not be fetched, as a sentence; empty for none.
    """
    values = {
        "name": place,
        "base": format_value(base),
        "how": how,
        "hint": _base_hint(place),
    }
    if not reason:
        return ModelError(
            "{name} is a LoRA adapter of {base}, which is not on this machine: {how}, or {hint}.",
            **values,
        )
    return ModelError(
        "{name} is a LoRA adapter of {base}, which is not on this machine: {how}, or {hint}. "
        "{reason}",
        **values,
        reason=reason,
    )


def _base_hint(place: str) -> str:
    return Message('name its base, as in "{example}BASE"', example=place + BASE_SEPARATOR)


def _merged_folder(name: str, place: str, said: str | None) -> str | None:
    """Return the folder of a merged adapter; None if it is not merged yet."""
    try:
        found = find_cached_snapshot(place) if is_hub_id(place) else (place, "")
        if found is None:
            return None
        base = local_folder(find_base_name(place, found[0], said))
        folder = None if base is None else find_build(adapter_sources(found[0], base))
    except ModelError:  # reported when it is merged
        return None
    return None if folder is None else str(folder.resolve())


def find_cached_snapshot(name: str) -> tuple[str, str] | None:
    """Return the folder and commit of a hub model in the local cache, else None; offline."""
    from huggingface_hub import snapshot_download

    try:
        repository, revision = split_revision(name)
        folder = snapshot_download(
            repository, revision=revision, allow_patterns=DOWNLOAD_PATTERNS, local_files_only=True
        )
    except (OSError, ValueError):  # LocalEntryNotFoundError is both
        return None
    return (folder, Path(folder).name) if _has_all_weights(Path(folder)) else None


def _has_all_weights(folder: Path) -> bool:
    """Return True if all weight files exist; an interrupted download may lack some."""
    index = folder / WEIGHTS_INDEX
    try:
        named = json.loads(index.read_bytes())["weight_map"].values() if index.is_file() else ()
        return all((folder / name).is_file() for name in set(named)) and any(
            folder.glob("*.safetensors")
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return False


def repository_folder(cache: str | Path, name: str) -> Path:
    """Return a repository's folder in the hub's cache, which all its fetched revisions share."""
    return Path(cache) / f"models--{split_revision(name)[0].replace('/', '--')}"


def has_complete_snapshot(repository: Path) -> bool:
    """Return True if a repository's cache folder holds a revision with all its weights."""
    return any(_has_all_weights(folder) for folder in repository.glob("snapshots/*"))


def find_non_hub_folder(name: str) -> str | None:
    """Return the folder of a model that is embedded, installed, converted or given as an allowed path; else None."""
    folder = CATALOGUE[name].folder if name in CATALOGUE else None
    if folder is None and is_gguf(name):
        folder = find_converted_gguf(name)
    elif folder is None and not SETTINGS.public and Path(name).is_absolute():
        folder = Path(name)
    if folder is None or not (folder / "config.json").is_file():
        return None
    return str(folder.resolve())


def installed_revision(name: str, folder: str) -> str | None:
    """Return the revision of an installed model: a hub commit, or a package and its version.

    The two sources have different weights, so the trace records which one was used.

    Args:
        name: model name, as in ``loading.load``; None is returned for models that are not installed.
        folder: its folder.
    """
    if name not in CATALOGUE or not CATALOGUE[name].brought:
        return None
    try:
        found = json.loads((Path(folder) / SOURCE_FILE).read_bytes())
        return str(found.get("revision") or found["wheel"])
    except (OSError, ValueError, KeyError, AttributeError, RecursionError):
        return None


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
