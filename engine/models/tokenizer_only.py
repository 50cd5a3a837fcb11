"""A model's tokenizer without its weights."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from engine.errors import ModelError
from engine.models.text import Pieces
from engine.models.tokenizers import load_tokenizer
from engine.sources.source import Endpoint, Source


@dataclass(frozen=True)
class TokenizerOnly:
    """The tokenizer of a model on this machine.

    Attributes:
        tokenizer: the transformers tokenizer.
        name: the model's name.
        pieces: its display pieces.
    """

    tokenizer: Any
    name: str
    pieces: Pieces = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "pieces", Pieces(self.tokenizer))


def load_tokenizer_only(source: Source) -> TokenizerOnly:
    """Return the tokenizer of a model; nothing is fetched and no weights are read.

    Args:
        source: where the model comes from.

    Raises:
        ModelError: the model is not offered here, its files are not on this machine, or its tokenizer
            cannot be read.
    """
    source.check_offered()
    folder = source.folder()
    if isinstance(source, Endpoint):
        source.require_folder()
    if folder is None:
        raise ModelError(
            "{name} is not on this machine yet; the first run fetches it.", name=source.name
        )
    return _load_from_folder(source.name, folder)


@lru_cache(maxsize=8)
def _load_from_folder(name: str, folder: str) -> TokenizerOnly:
    return TokenizerOnly(load_tokenizer(folder), name)
