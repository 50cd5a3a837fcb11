"""A model beside itself, to generate with: the same weights under a configuration of its own, which may be changed."""

from __future__ import annotations

from typing import Any

from engine.models.bare import special_ids_of
from engine.models.shells import shell


def twin(model: Any, attention: str | None = None) -> Any:
    """Return a model whose generate() inherits nothing but special token ids, sharing every parameter with another.

    Args:
        model: a transformers generation model, which is not modified.
        attention: see ``shells.shell``.
    """
    own = shell(model, attention)
    own.generation_config = special_ids_of(model)
    # As in ``bare``: generate() refuses drafting for every model with a running state.
    own._is_stateful = False
    return own
