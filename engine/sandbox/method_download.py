"""Subprocess that downloads one method from the hub into the folder ``into``, and answers with ``revision``.

It downloads README.md and ``custom_generate`` only, so the repository may be a model's. Nothing is executed.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from huggingface_hub import hf_hub_download

from engine.errors import ModelError, format_value
from engine.models.hub_download_job import check_hashes, fetch_model_info, hub_errors
from engine.models.subprocess_job import DOWNLOAD_NICENESS, handle_job
from engine.sandbox.catalogue import COMMIT_PATTERN
from engine.sandbox.folder import (
    CODE,
    ENTRY,
    MAX_BYTES,
    MAX_FILES,
    README,
    format_no_method,
    format_too_large,
)
from engine.sources.hub_cache import split_revision

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

_PATH = re.compile(rf"{CODE}(/(?!\.\.?(/|$))[\w.-]{{1,96}}){{1,8}}", re.ASCII)


def _download_files(order: dict[str, Any]) -> dict[str, str]:
    """Download a method's files and return their commit."""
    name = order["name"]
    with hub_errors(name, still="built-in methods still work"):
        info = fetch_model_info(name)
        found = _select_files(name, info.siblings or [])
        if not COMMIT_PATTERN.fullmatch(info.sha or ""):
            raise ModelError("The hub names no commit of {name}.", name=name)
        for file in found:
            hf_hub_download(
                split_revision(name)[0],
                file.rfilename,
                revision=info.sha,
                local_dir=order["into"],
            )
    check_hashes(Path(order["into"]), found)
    return {"revision": info.sha}


def _select_files(name: str, siblings: list[RepoSibling]) -> list[RepoSibling]:
    """Return the repository's files that belong to the method.

    Raises:
        ModelError: it is not a method, or one that is too large or has odd file names.
    """
    found = [
        file
        for file in siblings
        if file.rfilename == README
        or (file.rfilename.startswith(f"{CODE}/") and "__pycache__" not in file.rfilename)
    ]
    if not any(file.rfilename == ENTRY for file in found):
        raise ModelError(format_no_method(name))
    for file in found:
        if file.rfilename != README and not _PATH.fullmatch(file.rfilename):
            raise ModelError(
                "{name} has a file {file}; the files of a method must have plain names.",
                name=name,
                file=format_value(file.rfilename),
            )
    if len(found) > MAX_FILES or sum(file.size or 0 for file in found) > MAX_BYTES:
        raise ModelError(format_too_large(name))
    return found


if __name__ == "__main__":
    handle_job(_download_files, DOWNLOAD_NICENESS)
