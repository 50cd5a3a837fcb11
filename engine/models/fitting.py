"""Whether a text can be read by a model at all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from engine.errors import ModelError


def check_fits(loaded: Any, ids: Iterable[int], length: int) -> None:
    """Refuse a text that is longer than a model's context, or has tokens that it does not know.

    Args:
        loaded: the LoadedModel.
        ids: of the text.
        length: tokens that the model would read.

    Raises:
        ModelError: one sentence.
    """
    context = loaded.context_length
    if context is not None and length > context:
        raise ModelError(f"{loaded.name} has a context of {context} tokens; the text has {length}.")
    if max(ids) >= loaded.vocab_size:
        raise ModelError(f"{loaded.name} has only {loaded.vocab_size} tokens in its vocabulary.")
