"""A real instruct model under every strategy: the tokens that transformers itself gives, in float32."""

from __future__ import annotations

import pytest

from engine import DecodeRequest
from engine.strategies import STRATEGIES
from engine.strategies.compatibility import incompatibility_reason
from tests.helpers.real import CHAT, PLAIN, assistant_of, ids_of, real_model
from tests.helpers.references import expected, params_of
from tests.helpers.runs import finished
from tests.helpers.strategies import WITHOUT_HEADS

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore")]

OTHERS = ((PLAIN, 1), ("def add(a, b):\n    return a + b\n\ndef sub(a, b):\n    return", 2))
"""Prompts and seeds of longer texts; neighbouring strategies have different ones."""
NEW, SEED = 6, 3
LONG = {"contrastive_search": 16, "dola": 16, "diverse_beam_search": 16}
"""Tokens of a longer text, else 32: these references keep nothing, so each step reads all before it."""


def check(strategy, prompt, new, seed):
    real, ids = real_model(), ids_of(prompt)
    assert incompatibility_reason(STRATEGIES[strategy], real, assistant_of(strategy)) is None
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


@pytest.mark.by_day("sampling")
@pytest.mark.parametrize("strategy", WITHOUT_HEADS)
def test_a_strategy_gives_the_tokens_of_transformers(strategy):
    check(strategy, CHAT, NEW, SEED)


@pytest.mark.nightly
@pytest.mark.parametrize("strategy", WITHOUT_HEADS)
def test_a_longer_text_of_another_prompt_and_seed(strategy):
    prompt, seed = OTHERS[WITHOUT_HEADS.index(strategy) % len(OTHERS)]
    check(strategy, prompt, LONG.get(strategy, 32), seed)


def test_it_answers_what_it_is_asked():
    """The weights are those of a model that was taught: none of this comes of noise."""
    real = real_model()
    request = DecodeRequest("greedy", real, PLAIN, params={"max_new_tokens": 2})
    assert finished(request).outputs[0].text.startswith(" Rome")
    assert real.context_length == 8192
    assert real.vocab_size == len(real.tokenizer) == 49152
