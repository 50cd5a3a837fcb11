"""Vocabularies of model folders, to compare tokenizers without loading them.

tokenizer.json is read directly: that takes a tenth of the time of loading a large tokenizer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from engine.models.files import read_json_object
from engine.models.tokenizers import load_tokenizer

_FILES = ("tokenizer.json", "tokenizer_config.json", "config.json", "generation_config.json")
_LEGACY_FILES = ("vocab.json", "merges.txt", "tokenizer.model", "vocab.txt", "spiece.model")
"""Tokenizer files of older folders."""


@dataclass(frozen=True)
class Vocabulary:
    """The content of a tokenizer's vocabulary.

    Attributes:
        digest: SHA-256 of all tokens with their ids, including added tokens.
        size: number of tokens.
        ends: end-of-sequence ids from the model's files; may be empty.
    """

    digest: str
    size: int
    ends: frozenset[int]


def read_vocabulary(folder: str) -> Vocabulary | None:
    """Return the vocabulary of a model's folder; None if it has no readable tokenizer.

    The result is cached until one of its files changes.
    """
    return _read_cached(folder, _file_states(Path(folder)))


def _file_states(folder: Path) -> tuple[tuple[str, int, int], ...]:
    paths = [folder / name for name in (*_FILES, *_LEGACY_FILES)]
    found = [(path.name, path.stat()) for path in paths if path.is_file()]
    return tuple((name, about.st_mtime_ns, about.st_size) for name, about in found)


@lru_cache(maxsize=256)
def _read_cached(folder: str, state: tuple[tuple[str, int, int], ...]) -> Vocabulary | None:
    del state  # part of the cache key
    place = Path(folder)
    try:
        tokens = _read_tokens(place)
    except Exception:  # a tokenizer's files may break any rule; it then cannot be compared
        return None
    if not tokens:
        return None
    digest = hashlib.sha256()
    for token, token_id in sorted(tokens.items()):
        # With its length, since a token may contain spaces and line ends itself.
        digest.update(f"{len(token)} {token} {token_id}\n".encode("utf-8", "surrogatepass"))
    return Vocabulary(digest.hexdigest(), len(tokens), _read_end_ids(place))


def _read_tokens(folder: Path) -> dict[str, int]:
    """Return {token: id}, equal to the tokenizer's get_vocab()."""
    whole = folder / "tokenizer.json"
    if not whole.is_file():
        return _tokens_from_transformers(folder)
    spec = read_json_object(whole)
    vocab = spec["model"]["vocab"]
    tokens = (
        # A Unigram model lists pairs of piece and score; the place is the id.
        {pair[0]: number for number, pair in enumerate(vocab)}
        if isinstance(vocab, list)
        else dict(vocab)
    )
    tokens |= {added["content"]: added["id"] for added in spec.get("added_tokens") or ()}
    more = read_json_object(folder / "tokenizer_config.json").get("added_tokens_decoder") or {}
    return tokens | {added["content"]: int(token_id) for token_id, added in more.items()}


def _tokens_from_transformers(folder: Path) -> dict[str, int]:
    tokenizer = load_tokenizer(str(folder))
    return {} if tokenizer is None else tokenizer.get_vocab()


def _read_end_ids(folder: Path) -> frozenset[int]:
    """Return the end-of-sequence ids; generation_config.json takes precedence over config.json."""
    for name in ("generation_config.json", "config.json"):
        fields = read_json_object(folder / name)
        own = fields.get("eos_token_id")
        if own is None and isinstance(fields.get("text_config"), Mapping):
            own = fields["text_config"].get("eos_token_id")
        ids = own if isinstance(own, list) else [own]
        if any(isinstance(i, int) for i in ids):
            return frozenset(i for i in ids if isinstance(i, int))
    return frozenset()
