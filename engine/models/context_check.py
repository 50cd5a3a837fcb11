"""Check whether a text fits a model's context and vocabulary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from engine.errors import ModelError

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel


def encoder_positions(loaded: LoadedModel) -> int | None:
    """Return how many tokens an encoder can read.

    None for relative positions, such as T5's, for tables that grow, such as M2M100's, and for
    decoder-only models.
    """
    from engine.models.capabilities import position_count

    if not _has_table(loaded):
        return None
    own = getattr(loaded.model.config, "max_encoder_position_embeddings", None)  # LED
    return own or position_count(loaded.model)


def decoder_positions(loaded: LoadedModel) -> int | None:
    """Return how many tokens an encoder-decoder's decoder can read, with its start token; None for no limit.

    None for decoder-only models, too.
    """
    from engine.models.capabilities import position_count

    config = loaded.model.config
    if config.model_type == "prophetnet":
        # Its first token has the row behind the padding's, and each pass also reads the row behind
        # its token's: the second stream looks one place ahead.
        return int(config.max_position_embeddings - config.pad_token_id - 2)
    return position_count(loaded.model) if _has_table(loaded) else None


def _has_table(loaded: LoadedModel) -> bool:
    """Return True if an encoder and its decoder look positions up in tables that do not grow."""
    if not loaded.is_encoder_decoder:
        return False
    table = getattr(loaded.model.get_encoder(), "embed_positions", None)
    return hasattr(table, "num_embeddings") and not hasattr(table, "make_weight")  # FSMT's grow


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
