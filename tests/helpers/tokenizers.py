"""Tokenizers of three kinds, trained on a few words: two of them lose the space a text begins with."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from engine.models.loading import LoadedModel
from tests.helpers.models import tiny_llama

TEXT = (
    "the little bear saw a red ball in the green garden and the little bird saw the bear "
    "so they ran and ran to the old tree near the house where a small cat sat in the sun "
) * 3


def make_tokenizer(size: int, text: str = TEXT) -> Any:
    """Return a byte-level BPE tokenizer with ``size`` entries trained on ``text``."""
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet() if size > 260 else [],
    )
    raw.train_from_iterator([text], trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, bos_token="<s>", eos_token="</s>", pad_token="<pad>"
    )


def make_sentencepiece(size: int = 400, text: str = TEXT) -> Any:
    """Return a BPE tokenizer as Llama 2 and Mistral have one: ▁ for spaces, bytes for the rest."""
    letters = sorted({*text.replace(" ", "▁"), *",.'!?<>/0Ln"})
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<unk>", "<s>", "</s>", *fallback],
        initial_alphabet=letters,
        show_progress=False,
    )
    raw.train_from_iterator([text], trainer)
    spec = json.loads(raw.to_str())["model"]
    merges = [tuple(pair) for pair in spec["merges"]]
    return transformers.LlamaTokenizer(vocab=spec["vocab"], merges=merges, add_bos_token=True)


def make_unigram(size: int = 60, text: str = TEXT) -> Any:
    """Return a Unigram tokenizer as T5 has one, but without its end mark after every text."""
    raw = Tokenizer(models.Unigram())
    raw.pre_tokenizer = pre_tokenizers.Metaspace()
    raw.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=size,
        special_tokens=["<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        initial_alphabet=sorted({*"abcdefghijklmnopqrstuvwxyz,.'!?<>/0L"}),
        show_progress=False,
    )
    raw.train_from_iterator([text], trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=raw, eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )


@cache
def tokenizer_of(kind: str) -> Any:
    """Return the tokenizer of a kind: byte_level, sentencepiece or unigram."""
    makers = {
        "byte_level": lambda: make_tokenizer(400),
        "sentencepiece": make_sentencepiece,
        "unigram": make_unigram,
    }
    return makers[kind]()


@cache
def speaker_of(kind: str, seed: int = 1) -> LoadedModel:
    """Return a tiny model with random weights that speaks through the tokenizer of a kind."""
    tokenizer = tokenizer_of(kind)
    ids = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": None}
    model = tiny_llama(2, vocab_size=len(tokenizer), seed=seed, **ids)
    return LoadedModel(model, tokenizer, f"tiny-{kind}")


KINDS = ("byte_level", "sentencepiece", "unigram")


def renumbered(tokenizer: Any, new_ids: list[int]) -> Any:
    """Return a tokenizer that cuts text alike and numbers its tokens differently."""
    spec = json.loads(tokenizer.backend_tokenizer.to_str())
    spec["model"]["vocab"] = {token: new_ids[i] for token, i in spec["model"]["vocab"].items()}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(spec)),
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
    )
