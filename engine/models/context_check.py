"""Check whether a text fits a model's context and vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.errors import ModelError

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel


def check_fits_context(loaded: LoadedModel, ids: Iterable[int], length: int) -> None:
    """Check that a text is not longer than the model's context and has only tokens it knows.

    Args:
        loaded: the LoadedModel.
        ids: token ids of the text.
        length: number of tokens that the model would read.

    Raises:
        ModelError: the text is too long or has an id outside the vocabulary.
    """
    context = loaded.context_length
    if context is not None and length > context:
        raise ModelError(
            "{name} has a context of {context} tokens; the text has {length}.",
            name=loaded.name,
            context=context,
            length=length,
        )
    if max(ids) >= loaded.vocab_size:
        raise ModelError(
            "{name} has only {vocab_size} tokens in its vocabulary.",
            name=loaded.name,
            vocab_size=loaded.vocab_size,
        )
