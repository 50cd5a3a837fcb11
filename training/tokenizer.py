"""Byte-level BPE tokenizers: the target's and its draft's, the foreign draft's, the seq2seq model's.

python -m training.tokenizer --work WORK
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from training import corpus as corpora
from training.corpus import END, Corpus
from training.damage import damaged, sentences

TARGET, FOREIGN, SEQ2SEQ = "tokenizer.json", "foreign_tokenizer.json", "seq2seq_tokenizer.json"
SIZES = {TARGET: 4096, FOREIGN: 2048, SEQ2SEQ: 1024}


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


def train_seq2seq(texts: list[str], vocab_size: int) -> Tokenizer:
    """Train a byte-level BPE with padding (id 0) and an end mark (id 1) that ends every text."""
    tokenizer = Tokenizer(models.BPE())
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.pre_tokenizer, tokenizer.decoder = byte_level, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=["<pad>", "</s>"],
        initial_alphabet=byte_level.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return tokenizer


def wrap_seq2seq(tokenizer: Tokenizer) -> Any:
    """Return the seq2seq tokenizer as transformers loads it from a folder."""
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", model_max_length=512
    )


def wrap(tokenizer: Tokenizer, context: int) -> Any:
    """Return the tokenizer as transformers loads it from a folder."""
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


def main() -> None:
    """Train the three tokenizers on the prepared documents."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True)
    work = parser.parse_args().work
    corpus = corpora.load(work)
    for name, size in tqdm(SIZES.items(), unit="tokenizer"):
        if name == SEQ2SEQ:
            texts, rng = sentences(corpus.stories), random.Random(0)
            made = train_seq2seq(texts + [damaged(text, rng) for text in texts], size)
        else:
            made = train(corpus, size, foreign=name == FOREIGN)
        made.save(str(work / name))


if __name__ == "__main__":
    main()
