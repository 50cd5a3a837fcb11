"""The error about a name that means no model."""

from __future__ import annotations

from engine.errors import ModelError, format_value
from engine.settings import SETTINGS
from engine.sources.catalogue import CATALOGUE


def unknown_name_error(name: object) -> ModelError:
    """Return the error for a name of no known form; it lists the forms that this deployment takes."""
    values = {
        "name": format_value(name),
        "names": ", ".join(entry.name for entry in CATALOGUE.values() if entry.folder),
    }
    if SETTINGS.public:
        return ModelError(
            "model = {name} is not allowed: it must be a name of the catalogue ({names}), a hub id "
            "like owner/name or owner/name@revision.",
            **values,
        )
    return ModelError(
        "model = {name} is not allowed: it must be a name of the catalogue ({names}), a hub id "
        "like owner/name or owner/name@revision, or the absolute path of a model folder, a GGUF "
        "file or a LoRA adapter.",
        **values,
    )
