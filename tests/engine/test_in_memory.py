"""A model given as an object: its own defaults are never inherited, and it stays what it was."""

from __future__ import annotations

import copy
import threading

import pytest
from transformers import GenerationConfig, WatermarkingConfig

from engine import DecodeRequest, LoadedModel, decode
from engine.analysis.many_draws import draw_many
from engine.trace.events import Finished
from tests.helpers.gates import gate
from tests.helpers.models import fresh_model
from tests.helpers.runs import finished

PROMPT = [5, 9, 11, 4, 9, 11]
OWN = {
    "temperature": 0.2,
    "top_k": 2,
    "top_p": 0.3,
    "min_p": 0.5,
    "typical_p": 0.2,
    "epsilon_cutoff": 0.3,
    "eta_cutoff": 0.3,
    "repetition_penalty": 3.0,
    "no_repeat_ngram_size": 1,
    "bad_words_ids": [[i] for i in range(3, 60)],
    "sequence_bias": [[[10], 50.0]],
    "suppress_tokens": list(range(3, 60)),
    "begin_suppress_tokens": list(range(3, 60)),
    "forced_bos_token_id": 7,
    "forced_eos_token_id": 2,
    "min_new_tokens": 7,
    "max_new_tokens": 2,
    "max_length": 8,
    "max_time": 1e-9,
    "stop_strings": ["a"],
    "exponential_decay_length_penalty": (1, 9.0),
    "guidance_scale": 3.0,
    "renormalize_logits": True,
    "watermarking_config": WatermarkingConfig(bias=40.0),
    "num_return_sequences": 2,
    "num_beams": 3,
    "do_sample": True,
    "length_penalty": 3.0,
    "early_stopping": True,
    "penalty_alpha": 0.9,
    "dola_layers": "high",
    "prompt_lookup_num_tokens": 3,
    "assistant_early_exit": 2,
    "num_assistant_tokens": 2,
    "cache_implementation": "static",
    "use_cache": False,
    "return_dict_in_generate": True,
    "output_scores": True,
    "token_healing": True,
    "custom_field": 3,
}
CASES = {
    "greedy": {},
    "sampling": {"num_return_sequences": 3},
    "beam_search": {"num_beams": 2},
    "prompt_lookup": {},
}


def outputs(loaded, strategy):
    params = {"max_new_tokens": 6, **CASES[strategy]}
    trace = finished(DecodeRequest(strategy, loaded, input_ids=PROMPT, params=params, seed=4))
    return [output.token_ids for output in trace.outputs]


def state_of(model):
    return copy.deepcopy(
        (model.generation_config.__dict__, model.config.to_dict(), list(vars(model)))
    )


@pytest.fixture(scope="module")
def plain():
    return {strategy: outputs(LoadedModel(fresh_model("llama")), strategy) for strategy in CASES}


@pytest.mark.by_day(12)
@pytest.mark.parametrize("name", OWN)
def test_nothing_is_inherited_and_nothing_modified(plain, name):
    model = fresh_model("llama")
    setattr(model.generation_config, name, OWN[name])
    before = state_of(model)
    for strategy, tokens in plain.items():
        assert outputs(LoadedModel(model), strategy) == tokens, strategy
    assert state_of(model)[1:] == before[1:]
    assert str(state_of(model)[0]) == str(before[0])


def test_special_tokens_are_the_models_own():
    model = fresh_model("llama")
    first = outputs(LoadedModel(model), "greedy")[0][0]
    model.generation_config = GenerationConfig(eos_token_id=[first], min_p=0.9)
    assert outputs(LoadedModel(model), "greedy") == [(first,)]


def test_many_draws_inherit_nothing_either():
    texts = []
    for own in ({}, {"min_p": 0.9, "top_k": 1}):
        model = fresh_model("llama")
        model.generation_config.update(**own)
        params = {"max_new_tokens": 4}
        request = DecodeRequest("sampling", LoadedModel(model), input_ids=PROMPT, params=params)
        texts.append([draw.token_ids for batch in draw_many(request, 3) for draw in batch.draws])
    assert texts[0] == texts[1]


def test_a_cancelled_run_leaves_the_model_alone():
    model = fresh_model("llama")
    model.generation_config.min_p = 0.4
    before = state_of(model)
    request = DecodeRequest("greedy", LoadedModel(model), input_ids=PROMPT)
    with gate(model, free=2) as held:
        run = decode(request)
        held.wait()
        run.cancel()
        held.open()
        *_, last = run
    assert isinstance(last, Finished)
    assert str(state_of(model)) == str(before)


def test_two_threads_with_the_same_object(plain):
    model, found = fresh_model("llama"), {}
    model.generation_config.min_p = 0.9
    before = state_of(model)

    def work(strategy):
        found[strategy] = outputs(LoadedModel(model), strategy)

    threads = [threading.Thread(target=work, args=(strategy,)) for strategy in CASES]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == plain
    assert str(state_of(model)) == str(before)
