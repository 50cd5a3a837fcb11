"""The two watermark schemes as plain data: all a detector needs except the text. No torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

EXAMPLE_KEYS = (654, 400, 836, 123, 340, 443, 597, 160, 57)
"""Keys of transformers' example. Real use needs secret keys."""


@dataclass(frozen=True)
class GreenList:
    """A part of the vocabulary, chosen by the context, is green; green logits get a bias.

    Source: Kirchenbauer et al. 2023, arXiv 2301.10226 (lefthash) and 2306.04634 (selfhash).
    """

    greenlist_ratio: float = 0.25
    bias: float = 2.0
    hashing_key: int = 15485863
    seeding_scheme: str = "lefthash"
    """lefthash seeds with the last token alone, at any context width. selfhash seeds with the
    smallest hash of the last ``context_width`` tokens, the new one included."""
    context_width: int = 1

    @property
    def name(self) -> str:
        """Name of the scheme in traces."""
        return self.seeding_scheme

    @property
    def window(self) -> int:
        """Length of the n-gram that decides a token's colour, the token included."""
        return self.context_width + (self.seeding_scheme == "lefthash")

    @property
    def min_tokens(self) -> int:
        """Fewest tokens that transformers' detector accepts."""
        return self.context_width + 1


@dataclass(frozen=True)
class SynthId:
    """A tournament of keyed bits (g-values) among the tokens the model finds likely.

    Source: Dathathri et al. 2024, doi 10.1038/s41586-024-08025-4.
    """

    ngram_len: int = 5
    keys: tuple[int, ...] = EXAMPLE_KEYS
    """Each key adds one tournament round and one g-value per token."""
    context_history_size: int = 1024
    sampling_table_seed: int = 0
    sampling_table_size: int = 2**16
    skip_first_ngram_calls: bool = False
    debug_mode: bool = False

    @property
    def name(self) -> str:
        """Name of the scheme in traces."""
        return "synthid"

    @property
    def window(self) -> int:
        """Length of the n-gram that decides a token's g-values, the token included."""
        return self.ngram_len

    @property
    def min_tokens(self) -> int:
        """Fewest tokens for one g-value."""
        return self.ngram_len


Scheme = GreenList | SynthId


def scheme_from_config(values: Mapping[str, Any]) -> Scheme:
    """Return the scheme that a config describes, with defaults for missing names.

    Args:
        values: names and checked values of a watermark run; unrelated names are ignored.
    """
    kind = SynthId if values.get("scheme") == "synthid" else GreenList
    names = {f.name for f in dataclasses.fields(kind)}
    chosen = {name: value for name, value in values.items() if name in names}
    if "keys" in chosen:
        chosen["keys"] = tuple(chosen["keys"])
    return kind(**chosen)
