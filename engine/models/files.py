"""From a model's name to a folder of safe files: names, caps and formats checked before loading."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from engine.errors import ModelError, shown
from engine.models.catalogue import CATALOGUE, MODEL_DIR
from engine.settings import SETTINGS

_HUB_ID = re.compile(r"^[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}$", re.ASCII)
_PATTERNS = ["*.safetensors", "*.json", "tokenizer*", "*.txt", "*.model"]
_PROBE_S = 5.0
_UNAUTHORISED = 401
_NO_WEIGHTS = "The model has no safetensors weights; other formats are not loaded."
_CAPS = {
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


def resolve(name: str) -> tuple[str, str | None]:
    """Return the absolute folder of a model and its revision (a commit hash for hub models).

    Raises:
        ModelError: the name is not allowed, or the model cannot be found or fetched.
    """
    known = isinstance(name, str) and name in CATALOGUE
    if known and CATALOGUE[name].embedded:
        standing = _standing(name)
        if standing is None:
            raise ModelError(f"The embedded model {name} is not in this installation.")
        return standing, None
    text = name if isinstance(name, str) else ""
    if _HUB_ID.match(text) and ".." not in name:
        return _fetch(text)
    standing = _standing(text)
    if standing is not None:
        return standing, None
    raise ModelError(
        f"model = {shown(name)} is not allowed: it must be a name of the catalogue"
        f" ({', '.join(e.name for e in CATALOGUE.values() if e.embedded)}), a hub id like"
        + (
            " owner/name."
            if SETTINGS.public
            else " owner/name, or the absolute path of a model folder."
        )
    )


def check_name(name: Any) -> None:
    """Check what can be said of a model's name without the network: it is allowed, and its folder is there.

    Raises:
        ModelError: what is wrong with it.
    """
    if not (isinstance(name, str) and _HUB_ID.match(name) and ".." not in name):
        resolve(name)


def local_folder(name: str) -> str | None:
    """Return the folder of a model that is on this machine, None for any other; nothing is fetched."""
    embedded = name in CATALOGUE and CATALOGUE[name].embedded
    if not embedded and _HUB_ID.match(name) and ".." not in name:
        from huggingface_hub import snapshot_download

        try:
            return snapshot_download(name, allow_patterns=_PATTERNS, local_files_only=True)
        except (OSError, ValueError):
            return None
    return _standing(name)


def _standing(name: str) -> str | None:
    """Return the folder of an embedded model, or the folder that a path names where that is allowed."""
    if name in CATALOGUE and CATALOGUE[name].embedded:
        folder = MODEL_DIR / name
    elif not SETTINGS.public and Path(name).is_absolute():
        folder = Path(name)
    else:
        return None
    return str(folder.resolve()) if (folder / "config.json").is_file() else None


def _fetch(name: str) -> tuple[str, str]:
    """Download a hub model's weights and tokenizer, never code; return the snapshot and its hash."""
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
    )

    # Which HTTP library the hub package stands on has changed: its own error knows.
    unreachable: Any = HfHubHTTPError.__bases__[0]
    try:
        folder = snapshot_download(name, allow_patterns=_PATTERNS, local_files_only=True)
        return folder, Path(folder).name
    except (LocalEntryNotFoundError, OSError, ValueError):
        pass
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        raise ModelError(f"{name} is not on this machine and the hub is switched off.")
    try:
        info = HfApi().model_info(name, timeout=_PROBE_S)
        if not any(file.rfilename.endswith(".safetensors") for file in info.siblings or ()):
            raise ModelError(_NO_WEIGHTS)
        # Nothing large before the config is read. Asked for by its branch, the commit is noted in
        # the cache, so that the model is found there without the hub.
        folder = snapshot_download(name, allow_patterns=["config.json"], etag_timeout=_PROBE_S)
        check_config(folder)
        sha = Path(folder).name
        folder = snapshot_download(
            name, revision=sha, allow_patterns=_PATTERNS, etag_timeout=_PROBE_S
        )
    except GatedRepoError:
        raise ModelError(f"{name} is gated: ask for access on its hub page first.") from None
    except RepositoryNotFoundError:
        raise ModelError(f"{name} does not exist on the hub, or is private.") from None
    except HfHubHTTPError as error:
        code = error.response.status_code if error.response is not None else "an error"
        if code == _UNAUTHORISED:
            raise ModelError(f"{name} does not exist on the hub, or is private.") from None
        raise ModelError(f"The hub answered {code} for {name}; try again later.") from None
    except (unreachable, OSError, ValueError):  # a login page is no JSON
        raise ModelError(
            f"{name} is not on this machine and the hub cannot be reached; embedded models still work."
        ) from None
    return folder, sha


def check_folder(folder: str) -> dict[str, Any]:
    """Return config.json, refusing what must not reach the loader.

    Raises:
        ModelError: as ``check_config``, or no safetensors weights.
    """
    config = check_config(folder)
    if not any(Path(folder).glob("*.safetensors")):
        raise ModelError(_NO_WEIGHTS)
    return config


def check_config(folder: str) -> dict[str, Any]:
    """Read config.json.

    Raises:
        ModelError: not valid JSON, absurd sizes, or code paths.
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
                f"The model's config.json asks for {key}, which would run its own code."
            )
    for key, cap in _CAPS.items():
        value = config.get(key)
        if value is not None and not (isinstance(value, int) and 0 < value <= cap):
            raise ModelError(
                f"The model's config.json has {key} = {shown(value)}; at most {cap} works."
            )
    return config
