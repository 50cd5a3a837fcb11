"""Tokens equal transformers' own generate(): same prompt, same parameters, same seed."""

from __future__ import annotations

import pytest
import torch

from engine import DecodeRequest
from engine.loops.next_token import next_token_loop
from tests.helpers.loops import check_recorded
from tests.helpers.models import golden_cases, golden_model, native, new_tokens
from tests.helpers.nightly import cross
from tests.helpers.runs import finished

PROMPT = [5, 9, 11, 4, 9, 11]
MODELS = ["llama", "gpt2", "qwen2", "t5"]
PROCESSORS = {
    "none": {},
    "repetition_penalty": {"repetition_penalty": 1.4},
    "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
    "encoder_penalties": {"encoder_repetition_penalty": 1.3, "encoder_no_repeat_ngram_size": 2},
    "bad_words_ids": {"bad_words_ids": [[10], [56, 4]]},
    "sequence_bias": {"sequence_bias": [[[10], -5.0], [[56], 2.5]]},
    "suppress_tokens": {"suppress_tokens": [10, 56], "begin_suppress_tokens": [4]},
    "forced_eos": {"forced_eos_token_id": 2},
    "forced_bos": {"forced_bos_token_id": 7},
    "decay": {"exponential_decay_length_penalty": (2, 1.5)},
    "min_new_tokens": {"min_new_tokens": 6, "sequence_bias": [[[2], 4.0]]},
    "eos_token_id": {"eos_token_id": [10, 56]},
    "renormalize": {"renormalize_logits": True, "remove_invalid_values": True},
}
WARPERS = {
    "temperature": {"temperature": 0.6},
    "top_k": {"top_k": 5},
    "top_k_off": {"top_k": 0},
    "top_p": {"top_p": 0.7},
    "min_p": {"min_p": 0.1},
    "top_h": {"top_h": 0.4},
    "typical_p": {"typical_p": 0.6},
    "epsilon_cutoff": {"epsilon_cutoff": 0.02},
    "eta_cutoff": {"eta_cutoff": 0.02},
    "all": {
        "temperature": 1.3,
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.01,
        "typical_p": 0.95,
        "repetition_penalty": 1.2,
    },
}


def ours(strategy, loaded, ids=PROMPT, seed=0, **params):
    request = DecodeRequest(strategy, loaded, input_ids=ids, params=params, seed=seed)
    return [list(output.token_ids) for output in finished(request).outputs]


def theirs(loaded, ids=PROMPT, seed=0, **params):
    return native(loaded, ids, seed, **params)


@pytest.mark.by_day("gpt2-sequence_bias", "gpt2-decay", "qwen2-no_repeat_ngram_size")
@pytest.mark.parametrize(("name", "processor"), cross(MODELS, [*PROCESSORS]))
def test_greedy_and_sampling_with_each_processor(name, processor):
    loaded, params = golden_model(name), {"max_new_tokens": 12, **PROCESSORS[processor]}
    assert ours("greedy", loaded, **params) == theirs(loaded, do_sample=False, **params)
    assert ours("sampling", loaded, seed=3, **params) == theirs(
        loaded, seed=3, do_sample=True, **params
    )


@pytest.mark.parametrize(("name", "warper"), cross(MODELS, [*WARPERS]))
def test_sampling_with_each_warper_and_a_batch(name, warper):
    loaded, params = golden_model(name), {"max_new_tokens": 10, **WARPERS[warper]}
    for seed in (1, 2):
        for count in (1, 3):
            expected = theirs(
                loaded, seed=seed, do_sample=True, num_return_sequences=count, **params
            )
            assert (
                ours("sampling", loaded, seed=seed, num_return_sequences=count, **params)
                == expected
            )


@pytest.mark.parametrize("name", ["llama", "gpt2"])
@pytest.mark.parametrize("count", [1, 2])
def test_guidance_with_a_negative_prompt(name, count):
    loaded = golden_model(name)
    params = {"max_new_tokens": 8, "guidance_scale": 1.7}
    negative = torch.tensor([[8, 3, 60]]).expand(count, -1)
    expected = theirs(
        loaded,
        seed=5,
        do_sample=True,
        num_return_sequences=count,
        negative_prompt_ids=negative,
        **params,
    )
    assert (
        ours(
            "sampling",
            loaded,
            seed=5,
            num_return_sequences=count,
            negative_prompt_ids=[8, 3, 60],
            **params,
        )
        == expected
    )


def test_prefix_allowed_tokens_callable_and_list():
    loaded = golden_model("llama")
    even = lambda batch, ids: list(range(4, 90, 2))  # noqa: E731
    params = {"max_new_tokens": 8}
    assert ours("greedy", loaded, prefix_allowed_tokens_fn=even, **params) == theirs(
        loaded, do_sample=False, prefix_allowed_tokens_fn=even, **params
    )
    allowed = [[7, 8, 9], [7, 30]]
    [output] = ours("greedy", loaded, prefix_allowed_tokens_fn=allowed, **params)
    assert output in ([7, 8, 9, 2], [7, 30, 2])


RECORDED = golden_cases("greedy", "greedyrep", "sample", "samplemin")


@pytest.mark.by_day("greedyrep-t5-1", "samplemin-t5-1", "greedyrep-t5-2")
@pytest.mark.parametrize("case", RECORDED, ids=lambda case: case["id"])
def test_recorded_outputs_of_an_older_release(case):
    """The loop itself under generate(): batches and left padding included."""
    check_recorded(next_token_loop, case)


@pytest.mark.parametrize(
    "case", [c for c in RECORDED if len(c["input_ids"]) == 1], ids=lambda case: case["id"]
)
def test_recorded_outputs_through_a_request(case):
    loaded, kwargs = golden_model(case["model"]), dict(case["kwargs"])
    strategy = "sampling" if kwargs.pop("do_sample", False) else "greedy"
    start = 1 if loaded.is_encoder_decoder else len(case["input_ids"][0])
    row = case["out"]["sequences"][0][start:]
    [output] = ours(strategy, loaded, case["input_ids"][0], case["seed"], **kwargs)
    assert output == new_tokens(row, loaded.eos_token_ids)
