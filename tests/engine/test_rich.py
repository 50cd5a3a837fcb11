"""transformers' outputs of a run: field by field those of generate(), and nothing else is touched."""

from __future__ import annotations

import copy
import dataclasses
import queue
import threading
from contextlib import closing

import pytest
import torch

from engine import DecodeRequest, decode, load
from engine.after import rich, rich_sizes
from engine.after.rich import rich_output
from engine.after.rich_files import rich_bytes, rich_metadata
from engine.after.rich_flags import flags_of, passes_of
from engine.after.rich_sizes import size_of_rich
from engine.errors import Cancelled, DecodeError, EngineError, ModelError, ParameterError
from engine.models.loading import LoadedModel
from engine.run.permits import running
from engine.settings import SETTINGS
from engine.trace import json_io
from engine.trace.events import Finished, StepRecorded, Waiting
from tests.helpers.drafting import PROMPT as REPEATING
from tests.helpers.models import fresh_model, golden_model, tiny_llama
from tests.helpers.patience import PATIENCE_S
from tests.helpers.rich import EVERYTHING, differs, native_output
from tests.helpers.runs import finished
from tests.helpers.sentences import clean

PROMPT = [5, 9, 11, 4, 5, 9, 11]
LENGTH = {"max_new_tokens": 9}
SCORES = {"output_scores": True, "output_logits": True}
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


def run(name, model, ids=PROMPT, seed=3, assistant=None, **params):
    request = DecodeRequest(
        name.partition(",")[0], model, input_ids=ids, params=params, seed=seed, assistant=assistant
    )
    return finished(request)


def sized(trace, model, flags, output):
    """The size that is told is that of the file, to the byte."""
    told = size_of_rich(trace, model, flags)
    metadata = rich_metadata(trace, flags_of(flags))
    assert told == len(rich_bytes(output, metadata))


@pytest.mark.parametrize("flags", [SCORES, EVERYTHING], ids=["scores", "everything"])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", PLAIN)
def test_outputs_are_those_of_generate(name, model, flags):
    loaded, (params, kwargs) = golden_model(model), PLAIN[name]
    trace = run(name, loaded, **params, **LENGTH)
    output = rich_output(trace, loaded, **flags)
    theirs = native_output(loaded, trace, flags, **kwargs, **LENGTH)
    assert differs(output, theirs) == []
    assert type(output.past_key_values) is type(theirs.past_key_values)
    assert len(output.scores) == passes_of(trace)
    sized(trace, loaded, flags, output)
    # A page sends a run without its steps.
    assert size_of_rich(dataclasses.replace(trace, steps=()), loaded, flags) == size_of_rich(
        trace, loaded, flags
    )


@pytest.mark.parametrize("name", ["greedy", "sampling, two", "beam_search", "beam_sampling"])
@pytest.mark.parametrize("model", ["storyteller", "storyfixer"])
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
    output = rich_output(trace, **EVERYTHING)
    theirs = native_output(loaded, trace, EVERYTHING, **kwargs, max_new_tokens=12)
    assert differs(output, theirs) == []
    sized(trace, None, EVERYTHING, output)
    # Of files alone the same is known.
    sized(trace, loaded, EVERYTHING, output)


@pytest.mark.parametrize("flags", [SCORES, EVERYTHING], ids=["scores", "everything"])
@pytest.mark.parametrize("do_sample", [False, True])
@pytest.mark.parametrize("name", ["speculative", "prompt_lookup", "early_exit"])
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
    trace = run(name, loaded, ids=REPEATING, assistant=assistant, **params)
    output = rich_output(trace, loaded, assistant=assistant, **flags)
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
    sized(trace, loaded, flags, output)


def test_drafts_of_another_tokenizer():
    asked = DecodeRequest(
        "universal_assisted",
        prompt="Tom and his mom were in the kitchen. Tom wanted to",
        params={"max_new_tokens": 16, "num_assistant_tokens": 6},
    )
    trace = finished(asked)
    output = rich_output(trace, **EVERYTHING)
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
    from engine.declare.config import as_dict
    from engine.strategies.watermark import WatermarkConfig
    from engine.watermark.processors import generation_value
    from engine.watermark.schemes import scheme_of

    loaded, params = golden_model("llama"), {"scheme": scheme, "top_k": 0}
    trace = run("watermark", loaded, **params, **LENGTH)
    output = rich_output(trace, loaded, **EVERYTHING)
    mark = generation_value(scheme_of(as_dict(WatermarkConfig(**params))))
    kwargs = {"do_sample": True, "top_k": 0, "watermarking_config": mark}
    theirs = native_output(loaded, trace, EVERYTHING, **kwargs, **LENGTH)
    assert differs(output, theirs) == []
    # The mark is in the scores and not in the logits.
    assert not all(map(torch.equal, output.scores, output.logits))


def test_a_window_of_attention_is_told_and_seen():
    loaded = LoadedModel(tiny_llama(3, kind="Mistral", seed=4, sliding_window=5), None, "windowed")
    for name in ("greedy", "beam_search"):
        params, kwargs = PLAIN[name]
        trace = run(name, loaded, **params, **LENGTH)
        output = rich_output(trace, loaded, **EVERYTHING)
        assert differs(output, native_output(loaded, trace, EVERYTHING, **kwargs, **LENGTH)) == []
        assert output.attentions[-1][0].shape[-1] == 5
        sized(trace, loaded, EVERYTHING, output)


def test_a_model_without_a_cache_shows_all_positions_every_time():
    loaded = LoadedModel(fresh_model("gpt2"), None, "forgetful")
    vars(loaded)["capabilities"] = dataclasses.replace(
        golden_model("gpt2").capabilities, can_reorder=False, has_cache=False, cache_name=None
    )
    trace = run("beam_search", loaded, num_beams=2, **LENGTH)
    output = rich_output(trace, loaded, **EVERYTHING)
    kwargs = {"num_beams": 2, "do_sample": False, "use_cache": False}
    assert differs(output, native_output(loaded, trace, EVERYTHING, **kwargs, **LENGTH)) == []
    assert output.hidden_states[3][0].shape[1] == len(PROMPT) + 3
    sized(trace, loaded, EVERYTHING, output)


def hooks(model):
    return sum(len(module._forward_hooks) for module in model.modules())


@pytest.mark.parametrize("name", ["greedy", "early_exit"])
def test_the_model_and_all_other_draws_stay_as_they_were(name):
    loaded = LoadedModel(fresh_model("llama"), None, "own")
    params = {"max_new_tokens": 6}
    if name == "early_exit":
        params |= {"assistant_early_exit": 2, "do_sample": True, "top_k": 0}
    trace = run(name, loaded, **params)
    config = copy.deepcopy(loaded.model.config.to_dict())
    generation, known = loaded.model.generation_config.to_dict(), set(vars(loaded.model.model))
    attention, hung = loaded.model.config._attn_implementation, hooks(loaded.model)
    state = torch.random.get_rng_state()
    rich_output(trace, loaded, **EVERYTHING)
    assert loaded.model.config._attn_implementation == attention == "sdpa"
    assert loaded.model.config.to_dict() == config
    assert loaded.model.generation_config.to_dict() == generation
    assert (hooks(loaded.model), set(vars(loaded.model.model))) == (hung, known)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (
        finished(DecodeRequest(name, loaded, input_ids=PROMPT, params=params, seed=3)).outputs
        == trace.outputs
    )


def refused(trace, model=None, assistant=None, **flags):
    with pytest.raises(EngineError) as caught:
        rich_output(trace, model, assistant=assistant, **flags)
    return clean(str(caught.value), most=400)


@pytest.mark.parametrize(
    ("name", "params", "why"),
    [
        ("contrastive_search", {}, "moved it to transformers-community/contrastive-search"),
        ("dola", {}, "moved it to transformers-community/dola"),
        ("diverse_beam_search", {}, "moved it to transformers-community/group-beam-search"),
        (
            "beam_search",
            {"force_words_ids": [[7]]},
            "moved it to transformers-community/constrained-beam-search",
        ),
        ("prompt_lookup", {"do_sample": True, "top_p": 0.9}, "made-up scores"),
    ],
)
def test_what_left_transformers_has_no_outputs(name, params, why):
    loaded = golden_model("llama")
    said = refused(run(name, loaded, **params, **LENGTH), loaded)
    assert said.startswith("transformers' generate() cannot make this run")
    assert why in said


def test_a_custom_method_has_no_outputs():
    trace = json_io.load("assets/gallery/custom-1.json.gz")
    assert "A custom method decides in code of its own" in refused(trace)


def test_a_run_without_text_and_one_with_a_function_have_none():
    loaded = golden_model("llama")
    trace = run("greedy", loaded, **LENGTH)
    none = dataclasses.replace(trace.outputs[0], token_ids=())
    assert "wrote nothing" in refused(dataclasses.replace(trace, outputs=(none,)), loaded)
    config = {**trace.config, "prefix_allowed_tokens_fn": "<callable f>"}
    assert "A function of its own" in refused(dataclasses.replace(trace, config=config), loaded)
    assert "Nothing is known" in refused(dataclasses.replace(trace, strategy="evil"), loaded)


def test_another_model_is_refused():
    trace = run("greedy", golden_model("llama"), **LENGTH)
    assert "is built otherwise than" in refused(trace, golden_model("llama_draft"))
    assert "is built otherwise than" in refused(trace, golden_model("t5"))
    wide = LoadedModel(tiny_llama(6, vocab_size=101, seed=0), None, "wide")
    assert "wide has a vocabulary of 101 tokens" in refused(trace, wide)
    like = LoadedModel(tiny_llama(6, seed=77), None, "like")
    said = refused(trace, like)
    assert "comes out otherwise here from token" in said
    assert "where it was made" in said
    assert "leave output_attentions out" in refused(trace, like, output_attentions=True)


def test_a_trace_of_another_vocabulary_is_refused():
    trace = run("greedy", golden_model("llama"), **LENGTH)
    odd = dataclasses.replace(trace, prompt_ids=(5, 4000))
    assert "input_ids" in refused(odd, golden_model("llama"))


@pytest.mark.parametrize(
    "flags",
    [
        {"output_scores": 1},
        {"output_scores": "yes"},
        {"output_scores": False},
        {"output_attentions": None},
    ],
    ids=str,
)
def test_flags_that_are_none(flags):
    loaded = golden_model("llama")
    trace = run("greedy", loaded, **LENGTH)
    with pytest.raises(ParameterError) as caught:
        rich_output(trace, loaded, **flags)
    assert next(iter(flags)) in clean(str(caught.value))
    with pytest.raises(ParameterError):
        size_of_rich(trace, loaded, flags)


@pytest.mark.parametrize("flags", [5, [], "scores", {"scores": True}, {"evil": True}, {}], ids=str)
def test_flags_of_a_page_that_are_none(flags):
    with pytest.raises(ParameterError) as caught:
        flags_of(flags)
    clean(str(caught.value))


def limited(monkeypatch, **limits):
    monkeypatch.setattr(rich_sizes, "SETTINGS", dataclasses.replace(SETTINGS, **limits))


def test_what_is_too_large_is_refused_before_anything_is_computed(monkeypatch):
    loaded = golden_model("llama")
    trace = run("greedy", loaded, **LENGTH)
    whole = size_of_rich(trace, loaded, EVERYTHING)
    few = size_of_rich(trace, loaded, SCORES)
    limited(monkeypatch, max_rich_bytes=whole)
    rich_output(trace, loaded, **EVERYTHING)
    monkeypatch.setattr(rich, "_generated", lambda *_: pytest.fail("it was computed"))
    limited(monkeypatch, max_rich_bytes=whole - 1)
    said = refused(trace, loaded, **EVERYTHING)
    assert f"would take {whole / 1e6:.3g} MB" in said
    assert said.endswith("leave out output_hidden_states.")
    limited(monkeypatch, max_rich_bytes=few)
    said = refused(trace, loaded, **EVERYTHING)
    assert said.endswith("leave out output_hidden_states and output_attentions.")
    limited(monkeypatch, max_rich_bytes=100)
    assert refused(trace, loaded, **EVERYTHING).endswith("make a shorter run.")


def test_a_public_deployment_gives_less(monkeypatch):
    limited(monkeypatch, max_rich_bytes=500, max_public_rich_bytes=50)
    assert rich_sizes.most_bytes() == 500
    limited(monkeypatch, max_rich_bytes=500, max_public_rich_bytes=50, public=True)
    assert rich_sizes.most_bytes() == 50
    limited(monkeypatch, max_rich_bytes=20, max_public_rich_bytes=50, public=True)
    assert rich_sizes.most_bytes() == 20


def test_the_size_of_a_model_that_is_not_here_is_not_known():
    trace = run("greedy", golden_model("llama"), **LENGTH)
    gone = dataclasses.replace(trace, model=dataclasses.replace(trace.model, id="a/not-here"))
    with pytest.raises(ModelError, match="not on this machine"):
        size_of_rich(gone)


def stopped(name, after, **params):
    """Return the trace of a run that was stopped in its middle."""
    loaded = golden_model("llama")
    request = DecodeRequest(name, loaded, input_ids=REPEATING, params=params, seed=3)
    with closing(decode(request)) as events:
        for event in events:
            if isinstance(event, StepRecorded) and event.step.index == after:
                events.cancel()
            if isinstance(event, Finished):
                return event.trace
    raise AssertionError


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("greedy", {}),
        ("sampling", {"top_k": 0, "num_return_sequences": 3}),
        ("beam_search", {"num_beams": 3}),
        ("prompt_lookup", {"prompt_lookup_num_tokens": 3}),
    ],
)
def test_a_run_that_was_stopped_is_made_as_far_as_it_came(name, params):
    trace = stopped(name, 3, max_new_tokens=200, **params)
    assert any(output.finish_reason == "cancelled" for output in trace.outputs)
    output = rich_output(trace, golden_model("llama"), **EVERYTHING)
    longest = max(len(entry.token_ids) for entry in trace.outputs)
    assert longest < 200
    assert output.sequences.shape[1] == len(REPEATING) + longest
    assert len(output.scores) == len(output.attentions) == passes_of(trace)
    sized(trace, golden_model("llama"), EVERYTHING, output)


def test_whoever_stops_waits_no_longer():
    loaded = golden_model("llama")
    trace = run("greedy", loaded, **LENGTH)
    gone = threading.Event()
    gone.set()
    with pytest.raises(Cancelled):
        rich_output(trace, loaded, cancelled=gone)
    # The next one works.
    assert len(rich_output(trace, loaded).scores) == 9


def test_it_ends_in_the_middle_and_at_its_limit(monkeypatch):
    loaded = golden_model("llama")
    trace = run("greedy", loaded, **LENGTH)
    gone, forward = threading.Event(), type(loaded.model).forward

    def leaving(self, *args, **kwargs):
        gone.set()
        return forward(self, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(type(loaded.model), "forward", leaving)
        with pytest.raises(Cancelled):
            rich_output(trace, loaded, cancelled=gone)
    limit = dataclasses.replace(SETTINGS, max_runtime_s=0.0)
    monkeypatch.setattr(rich, "SETTINGS", limit)
    with pytest.raises(DecodeError, match="more than the 0 seconds"):
        rich_output(trace, loaded)


def test_what_waits_is_told():
    loaded = golden_model("llama")
    trace, told, results = run("greedy", loaded, **LENGTH), queue.Queue(), []
    waiting = threading.Thread(
        target=lambda: results.append(rich_output(trace, loaded, tell=told.put))
    )
    with running(threading.Event(), loaded):
        waiting.start()
        assert isinstance(told.get(timeout=PATIENCE_S), Waiting)
        assert not results
    waiting.join(PATIENCE_S)
    assert len(results[0].scores) == 9


def test_a_model_that_hides_what_was_asked_for(monkeypatch):
    loaded = golden_model("llama")
    trace = run("greedy", loaded, **LENGTH)
    made = rich_output(trace, loaded, **EVERYTHING)
    made.attentions = tuple((None,) * len(step) for step in made.attentions)
    monkeypatch.setattr(rich, "_generated", lambda *_: made)
    said = refused(trace, loaded, **EVERYTHING)
    assert said.startswith("output_attentions = True is not allowed: llama does not show its")
    assert said.endswith("leave it out.")


def test_weights_of_few_bits_and_halves():
    for held in ({"dtype": "bfloat16"}, {"quantization": "8bit"}):
        asked = DecodeRequest(
            "greedy", prompt="Once upon a time", params={"max_new_tokens": 6}, weights=held
        )
        trace = json_io.loads(json_io.dumps(finished(asked)))
        output = rich_output(trace, **EVERYTHING)
        assert len(output.attentions) == len(trace.outputs[0].token_ids)
        sized(trace, None, EVERYTHING, output)
