"""Tokenizers trained on a few words, for drafts that cut text otherwise than their target."""

from __future__ import annotations

import json
from typing import Any

import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

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
