"""The hub's local cache: hub ids, and the folders of repositories that were fetched."""

from __future__ import annotations

import json
import re
from pathlib import Path

_HUB_ID = re.compile(
    r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}(@[A-Za-z0-9][\w.-]{0,95}(/[\w.-]{1,96}){0,3})?",
    re.ASCII,
)
DOWNLOAD_PATTERNS = ["*.safetensors", "*.json", "tokenizer*", "*.txt", "*.model", "*.jinja"]
"""Files to download from a repository: safetensors weights, configuration, tokenizer, chat template; no code."""
WEIGHTS_INDEX = "model.safetensors.index.json"


def is_hub_id(name: object) -> bool:
    """Return True if a name has the form of a hub id: ``owner/name`` or ``owner/name@revision``."""
    # The hub refuses "..", and the name becomes that of a folder.
    return isinstance(name, str) and bool(_HUB_ID.fullmatch(name)) and ".." not in name


def split_revision(name: str) -> tuple[str, str | None]:
    """Split a hub id into its repository and revision; None for the newest revision."""
    repository, _, revision = name.partition("@")
    return repository, revision or None


def repository_folder(cache: str | Path, name: str) -> Path:
    """Return a repository's folder in the hub's cache, which all its fetched revisions share."""
    return Path(cache) / f"models--{split_revision(name)[0].replace('/', '--')}"


def find_snapshot(repository: str, revision: str | None) -> str | None:
    """Return the folder of a fetched revision, named by its commit; None if it lacks weights. Offline."""
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            repository, revision=revision, allow_patterns=DOWNLOAD_PATTERNS, local_files_only=True
        )
    except (OSError, ValueError):  # LocalEntryNotFoundError is both
        return None
    return folder if _has_all_weights(Path(folder)) else None


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
