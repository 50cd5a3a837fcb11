"""Limits that count the prompt, and a prompt without a token: as in generate()."""

from __future__ import annotations

import pytest

from engine import DecodeRequest, LoadedModel, load
from engine.errors import ParameterError
from engine.run.decoding import decode_to_trace
from tests.helpers.models import tiny_llama
from tests.helpers.zoo import zoo_model

PROMPT = "Once upon a time"
EARLY = {"eos_token_id": ["."]}


def written(params, **fields):
    fields = {"strategy": "greedy", "prompt": PROMPT, **fields}
    return decode_to_trace(DecodeRequest(params=params, **fields))


@pytest.mark.parametrize(
    "lengths", [{"max_length": 9}, {"max_length": 24, "min_length": 20}], ids=str
)
def test_they_end_a_text_where_generate_ends_it(lengths):
    loaded = load("storyteller")
    ids = loaded.tokenizer(PROMPT, return_tensors="pt").input_ids
    trace = written({**lengths, **EARLY})
    own = loaded.model.generate(
        ids, do_sample=False, eos_token_id=list(trace.eos_token_ids), **lengths
    )
    assert list(trace.outputs[0].token_ids) == own[0, ids.shape[1] :].tolist()
    assert trace.config["max_new_tokens"] == lengths["max_length"] - ids.shape[1]
    [*notes] = [note for note in trace.notes if "counts the prompt" in note]
    assert len(notes) == len(lengths)


def test_an_encoder_decoder_model_counts_its_start_token_only():
    loaded = zoo_model("MT5")
    given = {"model": loaded, "prompt": None, "input_ids": [5, 9, 11, 4, 20]}
    trace = written({"max_length": 7}, **given)
    assert trace.config["max_new_tokens"] == 6


def test_new_tokens_come_first():
    trace = written({"max_length": 5, "max_new_tokens": 3})
    assert trace.config["max_new_tokens"] == 3
    assert any("max_length = 5 is not used" in note for note in trace.notes)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"max_length": 4}, "with this prompt it must be from"),
        ({"max_length": 900}, "with this prompt it must be from"),
        ({"max_length": 0}, "whole number from 1"),
        ({"max_length": 12, "min_length": 30}, "at most max_new_tokens"),
    ],
    ids=str,
)
def test_what_leaves_no_text_is_refused(params, said):
    with pytest.raises(ParameterError, match=said):
        written(params)


def test_an_empty_prompt_begins_with_the_begin_token():
    trace = written({"max_new_tokens": 8}, prompt="")
    loaded = load("storyteller")
    assert trace.prompt_ids == (loaded.model.generation_config.bos_token_id,)
    assert trace.prompt == ""
    assert any("The prompt is empty" in note for note in trace.notes)
    own = loaded.model.generate(do_sample=False, max_new_tokens=8)
    assert list(trace.outputs[0].token_ids) == own[0, 1:].tolist()


def test_a_model_without_a_begin_token_refuses_an_empty_prompt():
    loaded = LoadedModel(tiny_llama(1, bos_token_id=None))
    loaded.tokenizer = load("storyteller").tokenizer
    loaded.model.generation_config.bos_token_id = None
    with pytest.raises(ParameterError, match="no begin token"):
        written({}, model=loaded, prompt="")
