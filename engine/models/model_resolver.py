"""Get the folder of a model: fetch, convert or merge it first if needed."""

from __future__ import annotations

import threading

from engine.errors import ModelError
from engine.models import hub
from engine.models.adapter_build import ensure_merged
from engine.models.adapter_merge import check_can_merge
from engine.models.gguf_conversion import ensure_gguf_converted
from engine.models.shared_work import ByteProgress
from engine.sources.lora_adapters import check_merge_allowed, check_weights, has_adapter_files
from engine.sources.source import Adapter, Gguf, Hub, Source


def resolve_model(
    source: Source, cancelled: threading.Event | None = None, tell: ByteProgress | None = None
) -> tuple[str, str | None]:
    """Return the absolute folder of a model and its revision, see ``Source.revision``.

    Args:
        source: where the model comes from.
        cancelled: waiting ends when this is set.
        tell: called with the progress in bytes.

    Raises:
        BusyError: too many downloads are running.
        Cancelled: ``cancelled`` was set.
        ModelError: the model is not allowed, or cannot be found, fetched, converted or merged.
    """
    match source:
        case Hub():
            folder, commit = hub.fetch_snapshot(source, cancelled, tell)
            # A repository is known to hold an adapter only now that its files are here.
            if has_adapter_files(folder):
                return _merge_adapter(Adapter(source.name, source), folder, cancelled, tell)
            return folder, commit
        case Adapter(place=Hub() as place):
            folder, _ = hub.fetch_snapshot(place, cancelled, tell)
            return _merge_adapter(source, folder, cancelled, tell)
        case Adapter(place=place):
            return _merge_adapter(source, place.name, cancelled, tell)
        case Gguf():
            return ensure_gguf_converted(source, cancelled, tell)
        case _:
            folder = source.require_folder()
            return folder, source.revision(folder)


def _merge_adapter(
    adapter: Adapter,
    folder: str,
    cancelled: threading.Event | None,
    tell: ByteProgress | None,
) -> tuple[str, str]:
    """Return the folder of an adapter merged into its base, and the sha256 of both."""
    name = adapter.place.name
    check_merge_allowed(name)
    base = adapter.find_base(folder)
    check_can_merge(name)
    check_weights(name, folder)
    try:
        base_folder, _ = resolve_model(base, cancelled, tell)
    except ModelError as error:
        if not isinstance(base, Hub):
            raise
        raise adapter.missing_base_error(base.name, base.download_hint(), str(error)) from None
    return ensure_merged(name, folder, base, base_folder, cancelled, tell)
