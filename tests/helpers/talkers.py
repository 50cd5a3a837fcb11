"""A tiny model that writes, with drafts for every strategy that takes one."""

from __future__ import annotations

from functools import cache

from engine.models.loading import LoadedModel
from engine.strategies import STRATEGIES
from tests.helpers.heads import with_heads
from tests.helpers.models import tiny_llama
from tests.helpers.tokenizers import speaker_of, tokenizer_of

PROMPT = "the little bear saw the little"


@cache
def target() -> LoadedModel:
    """A tiny model with a tokenizer, deep enough to be left early."""
    tokenizer = tokenizer_of("sentencepiece")
    ids = {"bos_token_id": 1, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": 0}
    model = with_heads(tiny_llama(6, vocab_size=len(tokenizer), seed=4, **ids))
    return LoadedModel(model, tokenizer, "tiny")


@cache
def assistant(name: str) -> LoadedModel | None:
    """A draft model that is right now and then, or one that cuts text otherwise."""
    kind = STRATEGIES[name].assistant
    if kind == "none":
        return None
    return speaker_of("sentencepiece", 9) if kind == "same_tokenizer" else speaker_of("byte_level")
