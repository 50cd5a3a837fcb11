"""Removal of temporary folders that killed processes left, wherever a server creates such folders."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path

from engine.sandbox.method_store import HUB_FOLDER, methods_folder
from engine.sources.build_key import build_folder
from engine.temporary_folder import remove_abandoned_folders


def remove_all_abandoned_folders() -> None:
    """Remove abandoned folders from the system's temporary folder and from those of models and methods.

    A new temporary folder removes the abandoned ones next to it, but some places may get none for days.
    """
    builds = build_folder("")
    places = (tempfile.gettempdir(), builds.parent, builds, methods_folder() / HUB_FOLDER)
    for place in places:
        with suppress(OSError):
            remove_abandoned_folders(Path(place))
