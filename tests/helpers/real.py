"""The real model of the tests, SmolLM2 135M Instruct: found where it was brought, else brought once."""

from __future__ import annotations

from functools import cache

import pytest
from transformers import LlamaForCausalLM

from engine.errors import EngineError
from engine.models.install import install_model
from engine.models.loading import LoadedModel, load
from engine.sources.source import Source
from engine.strategies import STRATEGIES

NAME = "smollm2"
CHAT = "Write one sentence about the sea."
PLAIN = "The capital of France is Paris, and the capital of Italy is"
DRAFT_LAYERS = 6


def real_model() -> LoadedModel:
    """Return it as float32 on the processor; a test is skipped, with the reason, where it cannot be had."""
    real_folder()
    return load(NAME, "cpu", "float32")


def real_folder() -> str:
    """Return its folder, by which any server names it; a test is skipped where it cannot be had."""
    reason = _missing()
    if reason is not None:
        pytest.skip(reason)
    source = Source.find(NAME)
    folder = None if source is None else source.folder()
    assert folder is not None
    return folder


@cache
def draft() -> LoadedModel:
    """Return the real model's own first layers: a draft of the same tokenizer, and a bad one."""
    real = real_model()
    config = type(real.model.config).from_dict(
        {**real.model.config.to_dict(), "num_hidden_layers": DRAFT_LAYERS}
    )
    model = LlamaForCausalLM(config)
    missing, _ = model.load_state_dict(real.model.state_dict(), strict=False)
    assert not [name for name in missing if "lm_head" not in name]
    return LoadedModel(model.eval(), real.tokenizer, "smollm2-first-layers")


def assistant_of(strategy: str) -> LoadedModel | None:
    """Return a draft model for the real one, None for strategies that take none."""
    needed = STRATEGIES[strategy].assistant
    if needed == "any_tokenizer":
        return load("storyteller-draft", "cpu", "float32")
    return draft() if needed == "same_tokenizer" else None


@cache
def ids_of(prompt: str) -> list[int]:
    """Return a prompt's ids; ``CHAT`` is asked in the model's chat template."""
    tokenizer = real_model().tokenizer
    if prompt != CHAT:
        return tokenizer(prompt).input_ids
    turns = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False).input_ids


@cache
def _missing() -> str | None:
    """Return why it cannot be had, None once it is there; it is tried once in a process."""
    try:
        install_model(NAME, lambda what, done, total: None)
    except EngineError as error:
        return str(error)
    return None
