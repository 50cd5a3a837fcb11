"""Check whether a text fits a model's context and vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.errors import ModelError

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel


def table_positions(loaded: LoadedModel) -> int | None:
    """Return how many tokens an encoder can read, and its decoder, with its start token, write.

    None for relative positions, such as T5's, for tables that grow, such as M2M100's, and for
    decoder-only models.
    """
    if not loaded.is_encoder_decoder:
        return None
    from engine.models.capabilities import position_count

    table = getattr(loaded.model.get_encoder(), "embed_positions", None)
    return position_count(loaded.model) if hasattr(table, "num_embeddings") else None


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
