"""A real instruct model under every strategy: the tokens that transformers itself gives, in float32."""

from __future__ import annotations

from functools import cache

import pytest
from transformers import LlamaForCausalLM

from engine import DecodeRequest, LoadedModel
from engine.models.loading import load
from engine.strategies import STRATEGIES
from engine.strategies.refusal import refusal
from tests.helpers.real import real_model
from tests.helpers.references import expected, params_of
from tests.helpers.runs import finished

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

CHAT = "Write one sentence about the sea."
PLAIN = "The capital of France is Paris, and the capital of Italy is"
LISTING = "def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return"
NEW, SEED, DRAFT_LAYERS = 8, 3, 6


@cache
def draft():
    """Return the real model's own first layers: a draft of the same tokenizer, and a bad one."""
    real = real_model()
    config = type(real.model.config).from_dict(
        {**real.model.config.to_dict(), "num_hidden_layers": DRAFT_LAYERS}
    )
    model = LlamaForCausalLM(config)
    missing, _ = model.load_state_dict(real.model.state_dict(), strict=False)
    assert not [name for name in missing if "lm_head" not in name]
    return LoadedModel(model.eval(), real.tokenizer, "smollm2-first-layers")


def ids_of(prompt):
    tokenizer = real_model().tokenizer
    if prompt != CHAT:
        return tokenizer(prompt).input_ids
    turns = [{"role": "user", "content": prompt}]
    text = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return tokenizer(text, add_special_tokens=False).input_ids


def assistant_of(strategy):
    needed = STRATEGIES[strategy].assistant
    if needed == "any_tokenizer":
        return load("storyteller-draft", "cpu", "float32")
    return draft() if needed == "same_tokenizer" else None


def check(strategy, prompt, new, seed):
    real, ids = real_model(), ids_of(prompt)
    assert refusal(STRATEGIES[strategy], real, assistant_of(strategy)) is None
    trace = finished(
        DecodeRequest(
            strategy,
            real,
            input_ids=ids,
            params={"max_new_tokens": new, **params_of(strategy)},
            seed=seed,
            assistant=assistant_of(strategy),
        )
    )
    wanted = expected(strategy, real, ids, new, seed, use_cache=True)
    assert [list(output.token_ids) for output in trace.outputs] == wanted


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_gives_the_tokens_of_transformers(strategy):
    check(strategy, CHAT, NEW, SEED)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("prompt", [CHAT, PLAIN, LISTING], ids=["chat", "plain", "code"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_longer_texts_of_several_prompts_and_seeds(strategy, prompt, seed):
    check(strategy, prompt, 40, seed)


def test_it_answers_what_it_is_asked():
    """The weights are those of a model that was taught: none of this comes of noise."""
    real = real_model()
    request = DecodeRequest("greedy", real, PLAIN, params={"max_new_tokens": 2})
    assert finished(request).outputs[0].text.startswith(" Rome")
    assert real.context_length == 8192
    assert real.vocab_size == len(real.tokenizer) == 49152
