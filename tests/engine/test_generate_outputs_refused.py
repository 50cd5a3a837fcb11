"""transformers' outputs of a run: what there is none of, what is left as it was, and who stops."""

from __future__ import annotations

import copy
import dataclasses
import queue
import threading
from contextlib import closing

import pytest
import torch

from engine import DecodeRequest, decode
from engine.analysis import generate_outputs, generate_outputs_sizes
from engine.analysis.generate_outputs import rerun_generate
from engine.analysis.generate_outputs_flags import count_passes, parse_flags
from engine.analysis.generate_outputs_sizes import output_file_size
from engine.errors import Cancelled, DecodeError, EngineError, ModelError, ParameterError
from engine.models.loading import LoadedModel
from engine.run.scheduler import wait_for_turn
from engine.settings import SETTINGS
from engine.trace import json_io
from engine.trace.events import Finished, StepRecorded, Waiting
from tests.helpers.drafting import PROMPT as REPEATING
from tests.helpers.models import fresh_model, golden_model, tiny_llama
from tests.helpers.patience import PATIENCE_S
from tests.helpers.rich import EVERYTHING, LENGTH, PROMPT, SCORES, check_sized, run_of
from tests.helpers.runs import finished
from tests.helpers.sentences import clean


def hooks(model):
    return sum(len(module._forward_hooks) for module in model.modules())


@pytest.mark.parametrize("name", ["greedy", "early_exit"])
def test_the_model_and_all_other_draws_stay_as_they_were(name):
    loaded = LoadedModel(fresh_model("llama"), None, "own")
    params = {"max_new_tokens": 6}
    if name == "early_exit":
        params |= {"assistant_early_exit": 2, "do_sample": True, "top_k": 0}
    trace = run_of(name, loaded, **params)
    config = copy.deepcopy(loaded.model.config.to_dict())
    generation, known = loaded.model.generation_config.to_dict(), set(vars(loaded.model.model))
    attention, hung = loaded.model.config._attn_implementation, hooks(loaded.model)
    state = torch.random.get_rng_state()
    rerun_generate(trace, loaded, **EVERYTHING)
    assert loaded.model.config._attn_implementation == attention == "sdpa"
    assert loaded.model.config.to_dict() == config
    assert loaded.model.generation_config.to_dict() == generation
    assert (hooks(loaded.model), set(vars(loaded.model.model))) == (hung, known)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (
        finished(DecodeRequest(name, loaded, input_ids=list(PROMPT), params=params, seed=3)).outputs
        == trace.outputs
    )


def refused(trace, model=None, assistant=None, **flags):
    with pytest.raises(EngineError) as caught:
        rerun_generate(trace, model, assistant=assistant, **flags)
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
    said = refused(run_of(name, loaded, **params, **LENGTH), loaded)
    assert said.startswith("transformers' generate() cannot make this run")
    assert why in said


def test_a_custom_method_has_no_outputs():
    trace = json_io.load("assets/gallery/custom-1.json.gz")
    assert "A custom method decides in its own code" in refused(trace)


def test_a_run_without_text_and_one_with_a_function_have_none():
    loaded = golden_model("llama")
    trace = run_of("greedy", loaded, **LENGTH)
    none = dataclasses.replace(trace.outputs[0], token_ids=())
    assert "wrote nothing" in refused(dataclasses.replace(trace, outputs=(none,)), loaded)
    config = {**trace.config, "prefix_allowed_tokens_fn": "<callable f>"}
    assert "A Python function decided" in refused(dataclasses.replace(trace, config=config), loaded)
    assert "Nothing is known" in refused(dataclasses.replace(trace, strategy="evil"), loaded)


def test_another_model_is_refused():
    trace = run_of("greedy", golden_model("llama"), **LENGTH)
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
    trace = run_of("greedy", golden_model("llama"), **LENGTH)
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
    trace = run_of("greedy", loaded, **LENGTH)
    with pytest.raises(ParameterError) as caught:
        rerun_generate(trace, loaded, **flags)
    assert next(iter(flags)) in clean(str(caught.value))
    with pytest.raises(ParameterError):
        output_file_size(trace, loaded, flags)


@pytest.mark.parametrize("flags", [5, [], "scores", {"scores": True}, {"evil": True}, {}], ids=str)
def test_flags_of_a_page_that_are_none(flags):
    with pytest.raises(ParameterError) as caught:
        parse_flags(flags)
    clean(str(caught.value))


def limited(monkeypatch, **limits):
    monkeypatch.setattr(generate_outputs_sizes, "SETTINGS", dataclasses.replace(SETTINGS, **limits))


def test_what_is_too_large_is_refused_before_anything_is_computed(monkeypatch):
    loaded = golden_model("llama")
    trace = run_of("greedy", loaded, **LENGTH)
    whole = output_file_size(trace, loaded, EVERYTHING)
    few = output_file_size(trace, loaded, SCORES)
    limited(monkeypatch, max_rich_bytes=whole)
    rerun_generate(trace, loaded, **EVERYTHING)
    monkeypatch.setattr(
        generate_outputs, "_call_generate", lambda *_: pytest.fail("it was computed")
    )
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
    assert generate_outputs_sizes.max_output_bytes() == 500
    limited(monkeypatch, max_rich_bytes=500, max_public_rich_bytes=50, public=True)
    assert generate_outputs_sizes.max_output_bytes() == 50
    limited(monkeypatch, max_rich_bytes=20, max_public_rich_bytes=50, public=True)
    assert generate_outputs_sizes.max_output_bytes() == 20


def test_the_size_of_a_model_that_is_not_here_is_not_known():
    trace = run_of("greedy", golden_model("llama"), **LENGTH)
    gone = dataclasses.replace(trace, model=dataclasses.replace(trace.model, id="a/not-here"))
    with pytest.raises(ModelError, match="not on this machine"):
        output_file_size(gone)


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
    output = rerun_generate(trace, golden_model("llama"), **EVERYTHING)
    longest = max(len(entry.token_ids) for entry in trace.outputs)
    assert longest < 200
    assert output.sequences.shape[1] == len(REPEATING) + longest
    assert len(output.scores) == len(output.attentions) == count_passes(trace)
    check_sized(trace, golden_model("llama"), EVERYTHING, output)


def test_a_visitor_who_stops_waits_no_longer():
    loaded = golden_model("llama")
    trace = run_of("greedy", loaded, **LENGTH)
    gone = threading.Event()
    gone.set()
    with pytest.raises(Cancelled):
        rerun_generate(trace, loaded, cancelled=gone)
    # The next one works.
    assert len(rerun_generate(trace, loaded).scores) == 9


def test_it_ends_in_the_middle_and_at_its_limit(monkeypatch):
    loaded = golden_model("llama")
    trace = run_of("greedy", loaded, **LENGTH)
    gone, forward = threading.Event(), type(loaded.model).forward

    def leaving(self, *args, **kwargs):
        gone.set()
        return forward(self, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(type(loaded.model), "forward", leaving)
        with pytest.raises(Cancelled):
            rerun_generate(trace, loaded, cancelled=gone)
    limit = dataclasses.replace(SETTINGS, max_runtime_s=0.0)
    monkeypatch.setattr(generate_outputs, "SETTINGS", limit)
    with pytest.raises(DecodeError, match="more than the 0 seconds"):
        rerun_generate(trace, loaded)


def test_what_waits_is_reported():
    loaded = golden_model("llama")
    trace, told, results = run_of("greedy", loaded, **LENGTH), queue.Queue(), []
    waiting = threading.Thread(
        target=lambda: results.append(rerun_generate(trace, loaded, tell=told.put))
    )
    with wait_for_turn(threading.Event(), loaded):
        waiting.start()
        assert isinstance(told.get(timeout=PATIENCE_S), Waiting)
        assert not results
    waiting.join(PATIENCE_S)
    assert len(results[0].scores) == 9


def test_a_model_that_hides_what_was_asked_for(monkeypatch):
    loaded = golden_model("llama")
    trace = run_of("greedy", loaded, **LENGTH)
    made = rerun_generate(trace, loaded, **EVERYTHING)
    made.attentions = tuple((None,) * len(step) for step in made.attentions)
    monkeypatch.setattr(generate_outputs, "_call_generate", lambda *_: made)
    said = refused(trace, loaded, **EVERYTHING)
    assert said.startswith("output_attentions = True is not allowed: llama does not show its")
    assert said.endswith("leave it out.")
