"""transformers' outputs of a run: field by field those of generate(), and as large as is told."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from engine import DecodeRequest, load
from engine.analysis.generate_outputs import rerun_generate
from engine.analysis.generate_outputs_flags import count_passes
from engine.analysis.generate_outputs_sizes import output_file_size
from engine.models.loading import LoadedModel
from engine.trace import json_io
from tests.helpers.drafting import PROMPT as REPEATING
from tests.helpers.models import fresh_model, golden_model, tiny_llama
from tests.helpers.nightly import cross
from tests.helpers.rich import (
    EVERYTHING,
    LENGTH,
    PROMPT,
    SCORES,
    check_sized,
    differs,
    native_output,
    run_of,
)
from tests.helpers.runs import finished

MODELS = ("llama", "gpt2", "qwen2", "t5")
PLAIN = {
    "greedy": ({}, {"do_sample": False}),
    "greedy, penalized": (
        {"repetition_penalty": 1.4, "no_repeat_ngram_size": 2},
        {"do_sample": False, "repetition_penalty": 1.4, "no_repeat_ngram_size": 2},
    ),
    "sampling": ({"top_k": 0}, {"do_sample": True, "top_k": 0}),
    "sampling, two": (
        {"top_k": 12, "temperature": 0.8, "num_return_sequences": 2},
        {"do_sample": True, "top_k": 12, "temperature": 0.8, "num_return_sequences": 2},
    ),
    "beam_search": (
        {"num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.5},
        {"do_sample": False, "num_beams": 3, "num_return_sequences": 2, "length_penalty": 0.5},
    ),
    "beam_search, one": ({"num_beams": 1}, {"do_sample": False}),
    "beam_sampling": (
        {"num_beams": 4, "top_k": 20},
        {"do_sample": True, "num_beams": 4, "top_k": 20},
    ),
}
DRAFTED = {"num_assistant_tokens": 4, "assistant_confidence_threshold": 0.1}


@pytest.mark.parametrize(("name", "model", "flags"), cross([*PLAIN], MODELS, [SCORES, EVERYTHING]))
def test_outputs_are_those_of_generate(name, model, flags):
    loaded, (params, kwargs) = golden_model(model), PLAIN[name]
    trace = run_of(name, loaded, **params, **LENGTH)
    output = rerun_generate(trace, loaded, **flags)
    theirs = native_output(loaded, trace, flags, **kwargs, **LENGTH)
    assert differs(output, theirs) == []
    assert type(output.past_key_values) is type(theirs.past_key_values)
    assert len(output.scores) == count_passes(trace)
    check_sized(trace, loaded, flags, output)
    # A page sends a run without its steps.
    assert output_file_size(
        dataclasses.replace(trace, steps=()), loaded, flags
    ) == output_file_size(trace, loaded, flags)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("model", "name"),
    cross(
        ["storyteller", "storyfixer"],
        ["greedy", "sampling, two", "beam_search", "beam_sampling"],
    ),
)
def test_outputs_of_models_that_come_along(name, model):
    loaded, (params, kwargs) = load(model), PLAIN[name]
    asked = DecodeRequest(
        name.partition(",")[0],
        model,
        "he showed it to mia ad said",
        params=params | {"max_new_tokens": 12},
        seed=5,
    )
    trace = json_io.loads(json_io.dumps(finished(asked)))
    output = rerun_generate(trace, **EVERYTHING)
    theirs = native_output(loaded, trace, EVERYTHING, **kwargs, max_new_tokens=12)
    assert differs(output, theirs) == []
    check_sized(trace, None, EVERYTHING, output)
    # Of files alone the same is known.
    check_sized(trace, loaded, EVERYTHING, output)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("name", "do_sample", "flags"),
    cross(["speculative", "prompt_lookup", "early_exit"], [False, True], [SCORES, EVERYTHING]),
)
def test_drafted_outputs_are_those_of_generate(name, do_sample, flags):
    own = {"do_sample": do_sample, "max_new_tokens": 20}
    # What follows the pad id is masked by transformers' own drafts.
    common = {"suppress_tokens": [0], **({"top_k": 0} if do_sample else {})}
    loaded, assistant, drafts, kwargs = golden_model("llama"), None, {}, {}
    if name == "prompt_lookup":
        kwargs = {"prompt_lookup_num_tokens": 4, "max_matching_ngram_size": 2}
    else:
        drafts = dict(DRAFTED)
    if name == "early_exit":
        kwargs = {"assistant_early_exit": 3}
    if name == "speculative":
        assistant = LoadedModel(fresh_model("llama_draft"), None, "draft")
    params = own | common | drafts | kwargs
    trace = run_of(name, loaded, ids=REPEATING, assistant=assistant, **params)
    output = rerun_generate(trace, loaded, assistant=assistant, **flags)
    theirs = native_output(
        loaded,
        trace,
        flags,
        drafts,
        assistant and assistant.model,
        **own,
        **common,
        **kwargs,
    )
    assert differs(output, theirs) == []
    assert len(output.scores) == len(trace.outputs[0].token_ids)
    check_sized(trace, loaded, flags, output)


@pytest.mark.parametrize("do_sample", [False, True])
def test_copied_drafts_for_a_decoder_with_an_encoder(do_sample):
    loaded, own = golden_model("t5"), {"do_sample": do_sample, "max_new_tokens": 20, "top_k": 0}
    if not do_sample:
        del own["top_k"]
    kwargs = {"prompt_lookup_num_tokens": 4, "max_matching_ngram_size": 2}
    trace = run_of("prompt_lookup", loaded, ids=REPEATING, **own, **kwargs)
    output = rerun_generate(trace, loaded, **EVERYTHING)
    assert differs(output, native_output(loaded, trace, EVERYTHING, **own, **kwargs)) == []
    check_sized(trace, loaded, EVERYTHING, output)


def test_drafts_of_another_tokenizer():
    asked = DecodeRequest(
        "universal_assisted",
        prompt="Tom and his mom were in the kitchen. Tom wanted to",
        params={"max_new_tokens": 16, "num_assistant_tokens": 6},
    )
    trace = finished(asked)
    output = rerun_generate(trace, **EVERYTHING)
    loaded, draft = load("storyteller"), load("foreign-draft")
    theirs = native_output(
        loaded,
        trace,
        EVERYTHING,
        {"num_assistant_tokens": 6, "assistant_confidence_threshold": 0.4},
        draft.model,
        tokenizer=loaded.tokenizer,
        assistant_tokenizer=draft.tokenizer,
        max_new_tokens=16,
        do_sample=False,
    )
    assert differs(output, theirs) == []


@pytest.mark.parametrize("scheme", ["greenlist", "synthid"])
def test_marked_outputs_are_those_of_generate(scheme):
    from engine.declare.config import config_to_dict
    from engine.strategies.watermark import WatermarkConfig
    from engine.watermark.processors import to_watermarking_config
    from engine.watermark.schemes import scheme_from_config

    loaded, params = golden_model("llama"), {"scheme": scheme, "top_k": 0}
    trace = run_of("watermark", loaded, **params, **LENGTH)
    output = rerun_generate(trace, loaded, **EVERYTHING)
    mark = to_watermarking_config(scheme_from_config(config_to_dict(WatermarkConfig(**params))))
    kwargs = {"do_sample": True, "top_k": 0, "watermarking_config": mark}
    theirs = native_output(loaded, trace, EVERYTHING, **kwargs, **LENGTH)
    assert differs(output, theirs) == []
    # The mark is in the scores and not in the logits.
    assert not all(map(torch.equal, output.scores, output.logits))


def test_a_window_of_attention_is_reported_and_seen():
    loaded = LoadedModel(tiny_llama(3, kind="Mistral", seed=4, sliding_window=5), None, "windowed")
    for name in ("greedy", "beam_search"):
        params, kwargs = PLAIN[name]
        trace = run_of(name, loaded, **params, **LENGTH)
        output = rerun_generate(trace, loaded, **EVERYTHING)
        assert differs(output, native_output(loaded, trace, EVERYTHING, **kwargs, **LENGTH)) == []
        assert output.attentions[-1][0].shape[-1] == 5
        check_sized(trace, loaded, EVERYTHING, output)


def test_a_model_without_a_cache_shows_all_positions_every_time():
    loaded = LoadedModel(fresh_model("gpt2"), None, "forgetful")
    vars(loaded)["capabilities"] = dataclasses.replace(
        golden_model("gpt2").capabilities, can_reorder=False, has_cache=False, cache_name=None
    )
    trace = run_of("beam_search", loaded, num_beams=2, **LENGTH)
    output = rerun_generate(trace, loaded, **EVERYTHING)
    kwargs = {"num_beams": 2, "do_sample": False, "use_cache": False}
    assert differs(output, native_output(loaded, trace, EVERYTHING, **kwargs, **LENGTH)) == []
    assert output.hidden_states[3][0].shape[1] == len(PROMPT) + 3
    check_sized(trace, loaded, EVERYTHING, output)


@pytest.mark.nightly
def test_weights_of_few_bits_and_halves():
    for held in ({"dtype": "bfloat16"}, {"quantization": "8bit"}):
        asked = DecodeRequest(
            "greedy", prompt="Once upon a time", params={"max_new_tokens": 6}, weights=held
        )
        trace = json_io.loads(json_io.dumps(finished(asked)))
        output = rerun_generate(trace, **EVERYTHING)
        assert len(output.attentions) == len(trace.outputs[0].token_ids)
        check_sized(trace, None, EVERYTHING, output)
