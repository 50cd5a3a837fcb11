"""A view of a model to generate with, whose configuration may be changed."""

from __future__ import annotations

from typing import Any

from engine.models.bare import special_ids_of
from engine.models.shells import shell


def twin(model: Any, attention: str | None = None) -> Any:
    """Return a view to generate with: own configuration and hooks, shared parameters.

    Its generate() inherits special token ids only.

    Args:
        model: a transformers generation model; it is not modified.
        attention: attention implementation, see ``shell``.
    """
    own = shell(model, attention)
    own.generation_config = special_ids_of(model)
    # As in ``bare``: generate() refuses drafting for models with a running state.
    own._is_stateful = False
    return own
