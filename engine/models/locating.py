"""From a model's name to its folder, whatever the name is: what is not on this machine yet comes first."""

from __future__ import annotations

import threading

from engine.models import files, hub
from engine.models.gguf_files import fetch_gguf
from engine.models.gguf_names import is_gguf


def located(
    name: str, cancelled: threading.Event | None = None, tell: hub.Tell | None = None
) -> tuple[str, str | None]:
    """Return the absolute folder of a model and its revision.

    The revision is a commit of the hub, the wheel that it was brought in, or a GGUF file's sha256.

    Args:
        name: see ``loading.load``.
        cancelled: gives up waiting when set.
        tell: hears how far it is.

    Raises:
        BusyError: too many models are being fetched.
        Cancelled: it was cancelled meanwhile.
        ModelError: the name is not allowed, or the model cannot be found, fetched or converted.
    """
    files.check_name(name)
    if files.is_hub_id(name):
        return hub.fetch(name, cancelled, tell)
    if is_gguf(name):
        return fetch_gguf(name, cancelled, tell)
    folder = files.standing(name)
    assert folder is not None
    return folder, files.brought_revision(name, folder)


def comes_first(name: str) -> bool:
    """Return whether a model may have to be fetched or converted before it can be loaded."""
    return files.is_hub_id(name) or is_gguf(name)
