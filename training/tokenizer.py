"""Byte-level BPE tokenizers: one for the target and its draft, another for the foreign draft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from training.corpus import END, Corpus


def train(corpus: Corpus, vocab_size: int, *, foreign: bool = False) -> Tokenizer:
    """Train a byte-level BPE; id 0 is the end mark.

    Args:
        corpus: its training documents (never the held-out ones).
        vocab_size: entries, the 256 bytes and the end mark included.
        foreign: split digits and punctuation apart and learn from the classics alone, so that the
            merges differ from the target's, not only their number.
    """
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    splits = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.Punctuation()]
    tokenizer.pre_tokenizer = (
        pre_tokenizers.Sequence([*splits, byte_level]) if foreign else byte_level
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=[END], initial_alphabet=byte_level.alphabet()
    )
    own = corpus.stories + corpus.books + corpus.facts * 2 + corpus.classics[:400]
    tokenizer.train_from_iterator(corpus.classics + corpus.stories if foreign else own, trainer)
    return tokenizer


def wrap(tokenizer: Tokenizer, context: int) -> Any:
    """Return the tokenizer as transformers loads it from a folder."""
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END,
        eos_token=END,
        pad_token=END,
        model_max_length=context,
    )


def read(path: Path) -> Tokenizer:
    """Read a ``tokenizer.json``."""
    return Tokenizer.from_file(str(path))
