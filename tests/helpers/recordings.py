"""The recorded runs of the gallery."""

from __future__ import annotations

from engine.analysis import gallery

FIRST = {entry.strategy: entry for entry in reversed(gallery.list_entries())}
"""Strategy -> its first recording."""
