"""The drafters by themselves: isolation, tokenizers, the universal variants, exact distributions."""

from __future__ import annotations

import copy
from functools import cache, partial
from typing import Any

import pytest
import torch
import transformers
from transformers import DynamicCache
from transformers.generation import candidate_generator

from engine import DecodeRequest
from engine.errors import EngineError
from engine.loops.drafting.assistant import view_first_layers
from engine.loops.drafting.drafter import NAN_NOTE, RunContext
from engine.loops.drafting.lossless_check import sample_short_run
from engine.loops.drafting.universal import IntersectionDrafter, longest_common_run, shared_tokens
from engine.models.loading import LoadedModel
from tests.helpers import talkers
from tests.helpers.drafting import PROMPT, finish, native_rounds, rounds
from tests.helpers.models import fresh_model, golden_model, tiny_llama
from tests.helpers.runs import finished
from tests.helpers.tokenizers import make_tokenizer, renumbered

SAME = "speculative"


@cache
def foreign_pair() -> tuple[LoadedModel, LoadedModel]:
    """Return a target and a draft whose tokenizers differ."""
    ours, theirs = make_tokenizer(70), make_tokenizer(48)
    return (
        LoadedModel(tiny_llama(3, vocab_size=len(ours), seed=1), ours, "target"),
        LoadedModel(tiny_llama(1, vocab_size=len(theirs), seed=4), theirs, "foreign"),
    )


def weights(model: Any) -> dict[str, torch.Tensor]:
    """Return a copy of every parameter."""
    return {name: p.clone() for name, p in model.named_parameters()}


def unchanged(model: Any, before: dict[str, torch.Tensor]) -> bool:
    """Return whether a model still has exactly these parameters."""
    now = dict(model.named_parameters())
    return now.keys() == before.keys() and all(torch.equal(now[n], before[n]) for n in before)


@pytest.mark.parametrize("do_sample", [False, True])
@pytest.mark.parametrize("universal", [False, True])
def test_a_draft_model_whose_scores_are_no_numbers_costs_no_text(universal, do_sample):
    target, draft = foreign_pair() if universal else (talkers.target(), talkers.assistant(SAME))
    name = "universal_assisted" if universal else SAME
    broken = copy.copy(draft)
    broken.model = copy.deepcopy(draft.model)
    with torch.no_grad():
        broken.model.get_output_embeddings().weight.fill_(torch.nan)
    params = {"max_new_tokens": 6, "do_sample": do_sample}
    trace = finished(
        DecodeRequest(name, target, talkers.PROMPT, params=params, assistant=broken, seed=3)
    )
    assert len(trace.outputs[0].token_ids) == 6
    assert NAN_NOTE in trace.notes
    assert trace.notes.count(NAN_NOTE) == 1
    if not do_sample:
        plain = DecodeRequest("greedy", target, talkers.PROMPT, params={"max_new_tokens": 6})
        assert trace.outputs[0].token_ids == finished(plain).outputs[0].token_ids


def test_first_layers_is_a_view_that_leaves_the_model_alone():
    model = fresh_model("gpt2")
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        whole = model(ids).logits
        short = view_first_layers(model, 2)
        early = short(ids).logits
        hidden = model(ids, output_hidden_states=True).hidden_states[2]
        expected = model.lm_head(model.transformer.ln_f(hidden))
        assert torch.equal(model(ids).logits, whole)
    assert torch.allclose(early, expected, atol=1e-5)
    assert len(model.transformer.h) == 4
    assert next(short.parameters()).data_ptr() == next(model.parameters()).data_ptr()


def test_an_error_in_an_early_exit_run_leaves_every_layer_in_place():
    loaded = LoadedModel(fresh_model("llama"), None, "whole")
    layers = loaded.model.config.num_hidden_layers
    before = finish("greedy", {"max_new_tokens": 8}, model=loaded).outputs
    calls = []

    def breaks(batch: int, ids: torch.Tensor) -> list[int]:
        calls.append(batch)
        if len(calls) > 4:
            raise RuntimeError
        return list(range(97))

    with pytest.raises(EngineError):
        finish(
            "early_exit",
            {"assistant_early_exit": 2, "max_new_tokens": 20, "prefix_allowed_tokens_fn": breaks},
            model=loaded,
        )
    assert loaded.model.config.num_hidden_layers == layers == len(loaded.model.model.layers)
    assert not loaded.lock.locked()
    assert finish("greedy", {"max_new_tokens": 8}, model=loaded).outputs == before


@pytest.mark.parametrize("layer", [6, 7, 250])
def test_an_exit_layer_the_model_does_not_have_is_refused(layer):
    with pytest.raises(EngineError, match="from 1 to 5"):
        finish("early_exit", {"assistant_early_exit": layer})


@pytest.mark.parametrize("strategy", ["speculative", "prompt_lookup", "early_exit"])
def test_guidance_with_a_drafter_is_refused(strategy):
    with pytest.raises(EngineError, match="guidance"):
        finish(strategy, {"guidance_scale": 2.0}, assistant=golden_model("llama_draft"))


def test_draft_settings_given_as_parameters_take_effect():
    lengths = {}
    for asked in (1, 3):
        trace = finish(
            "speculative",
            {
                "num_assistant_tokens": asked,
                "max_new_tokens": 12,
                "assistant_confidence_threshold": 0.0,
            },
            assistant=golden_model("llama_draft"),
        )
        lengths[asked] = max(step.detail.draft_length for step in trace.steps)
    assert lengths == {1: 1, 3: 3}


def test_scikit_learn_makes_no_difference(monkeypatch):
    params = {"num_assistant_tokens": 5, "max_new_tokens": 24}
    without = finish("speculative", params, assistant=golden_model("llama_draft"))
    monkeypatch.setattr(candidate_generator, "is_sklearn_available", lambda: True)
    with_it = finish("speculative", params, assistant=golden_model("llama_draft"))
    assert rounds(without) == rounds(with_it)
    assert without.outputs == with_it.outputs


def test_tokenizers_of_equal_size_are_distinguished_by_content():
    ours = make_tokenizer(48)
    theirs = make_tokenizer(
        48, "zebras quickly jump over vexing wizards, quartz fjords and yaks! " * 5
    )
    assert len(ours) == len(theirs)
    target = LoadedModel(tiny_llama(2, vocab_size=48, seed=1), ours, "target")
    draft = LoadedModel(tiny_llama(1, vocab_size=48, seed=2), theirs, "other")
    with pytest.raises(EngineError, match="tokenizers differ from id"):
        finish("speculative", {}, model=target, assistant=draft, input_ids=[5, 6, 7])
    trace = finish(
        "universal_assisted",
        {"max_new_tokens": 10},
        model=target,
        assistant=draft,
        input_ids=[5, 6, 7],
    )
    plain = finish("greedy", {"max_new_tokens": 10}, model=target, input_ids=[5, 6, 7])
    assert trace.outputs[0].token_ids == plain.outputs[0].token_ids


def test_a_stop_string_inside_a_draft_ends_the_text_where_plain_decoding_would():
    target, _ = foreign_pair()
    prompt = target.tokenizer("the little bear saw a red ball")["input_ids"]
    plain = finish("greedy", {"max_new_tokens": 24}, model=target, input_ids=prompt)
    stop = target.tokenizer.decode(plain.outputs[0].token_ids[:2])[-2:]
    same = LoadedModel(copy.deepcopy(target.model), target.tokenizer, "same")
    params = {"max_new_tokens": 24, "stop_strings": [stop]}
    expected = finish("greedy", params, model=target, input_ids=prompt)
    trace = finish(
        "speculative",
        params | {"assistant_confidence_threshold": 0.0},
        model=target,
        assistant=same,
        input_ids=prompt,
    )
    assert trace.outputs == expected.outputs
    assert len(trace.outputs[0].token_ids) < trace.steps[-1].detail.draft_length
    assert trace.steps[-1].detail.final_source == "ended"


def test_longest_run_is_the_first_of_the_longest():
    assert longest_common_run([1, 2, 3, 4], [9, 2, 3, 8]) == (1, 1, 2)
    assert longest_common_run([5, 6, 5, 6], [5, 6]) == (0, 0, 2)
    assert longest_common_run([1], [2]) is None


UNIVERSAL = {
    "num_assistant_tokens": 4,
    "num_assistant_tokens_schedule": "heuristic_transient",
    "assistant_confidence_threshold": 0.0,
}


def universal_rounds(target: LoadedModel, draft: LoadedModel, processors: dict[str, Any]) -> Any:
    """Return (tokens, rounds) of ours and of transformers, which re-encodes the whole text."""
    prompt = target.tokenizer("the little bear saw a red ball in the garden")["input_ids"]
    params = processors | {"max_new_tokens": 24, "suppress_tokens": [0, 1]}
    trace = finish(
        "universal_assisted", UNIVERSAL | params, model=target, assistant=draft, input_ids=prompt
    )
    native = native_rounds(
        0,
        UNIVERSAL | {"target_lookbehind": 10_000},
        copy.deepcopy(draft.model),
        prompt=prompt,
        target=copy.deepcopy(target.model),
        do_sample=False,
        tokenizer=target.tokenizer,
        assistant_tokenizer=draft.tokenizer,
        **params,
    )
    plain = finish("greedy", params, model=target, input_ids=prompt)
    assert trace.outputs[0].token_ids == plain.outputs[0].token_ids
    return (list(trace.outputs[0].token_ids), rounds(trace)), native


PENALTIES = [{}, {"repetition_penalty": 1.3}, {"no_repeat_ngram_size": 3}]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("processors", PENALTIES)
def test_greedy_universal_rounds_are_those_of_transformers_where_tokens_correspond(processors):
    ours = make_tokenizer(70)
    target = LoadedModel(tiny_llama(3, vocab_size=70, seed=3), ours, "target")
    # A slightly disturbed copy of the target under renumbered ids: it is right now and then.
    shift = torch.tensor([0, 1, 2, *range(4, 70), 3])
    model = copy.deepcopy(target.model)
    model.resize_token_embeddings(72, mean_resizing=False)
    torch.manual_seed(0)
    with torch.no_grad():
        for name in ("get_input_embeddings", "get_output_embeddings"):
            old = getattr(target.model, name)().weight
            new = getattr(model, name)().weight
            new[shift] = old + 0.05 * torch.randn_like(old)
    draft = LoadedModel(model, renumbered(ours, shift.tolist()), "renumbered")
    mine, native = universal_rounds(target, draft, processors)
    assert mine == native
    assert any(emitted > 1 for _, emitted in mine[1])


@pytest.mark.parametrize("processors", PENALTIES)
def test_greedy_universal_rounds_are_those_of_transformers_without_its_stale_cache(
    processors, monkeypatch
):
    """5.23 keeps cached positions of rejected drafts when one token becomes several."""
    target, draft = foreign_pair()
    mine, stale = universal_rounds(target, draft, processors)
    assert mine[0] == stale[0]
    generator = candidate_generator.AssistedCandidateGeneratorDifferentTokenizers
    monkeypatch.setattr(
        generator,
        "_update_past_and_masks",
        lambda self, *args, **kwargs: self.assistant_kwargs.pop("past_key_values", None),
    )
    mine, native = universal_rounds(target, draft, processors)
    assert mine == native


def test_shared_tokens_stand_for_the_same_text():
    target, draft = foreign_pair()
    pairs = shared_tokens(target, draft)
    assert len(pairs) > 20
    assert all(target.pieces[ours] == draft.pieces[theirs] for ours, theirs in pairs.items())


@pytest.mark.nightly
@torch.no_grad()
def test_universal_sampling_has_the_targets_distribution_and_leaves_the_draft_alone():
    target, _ = foreign_pair()
    theirs = make_tokenizer(56, "zebras jump over lazy wizards near the quick brown fox " * 5)
    draft = LoadedModel(tiny_llama(1, vocab_size=len(theirs), seed=4), theirs, "partly foreign")
    prompt = target.tokenizer("the little bear saw a")["input_ids"]
    before = weights(draft.model)
    exact = first_token(target, prompt)
    ours = torch.zeros(target.vocab_size)
    runs = 1500
    context = sampling_context(target.model, prompt, num_assistant_tokens=3)
    generator = torch.Generator().manual_seed(0)
    prepared = {"past_key_values": DynamicCache(), "use_cache": True}
    for _ in range(runs):
        make = partial(IntersectionDrafter, target=target, assistant=draft)
        ours[sample_short_run(context, prepared, make, generator, 1)[0]] += 1
    noise = expected_noise(exact, runs)
    assert variation(ours / runs, exact) < 1.6 * noise
    assert unchanged(draft.model, before)

    # transformers' own universal sampling leaves the draft changed. How wrong its distribution is
    # depends on the order of the tokenizer's dictionary, so that is no steady thing to test.
    broken = copy.deepcopy(draft.model)
    shapes = weights(broken)
    ids = torch.tensor([prompt])
    target.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        assistant_model=broken,
        do_sample=True,
        top_k=0,
        tokenizer=target.tokenizer,
        assistant_tokenizer=draft.tokenizer,
        max_new_tokens=4,
    )
    assert not unchanged(broken, shapes)


def sampling_context(model: Any, prompt: list[int], **settings: Any) -> RunContext:
    """Return the context of a sampled run without processors."""
    config = transformers.GenerationConfig(
        do_sample=True,
        max_length=len(prompt) + 12,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.0,
        **settings,
    )
    config._eos_token_tensor = None
    return RunContext(model, torch.tensor([prompt]), [], config, torch.Generator())


def first_token(loaded: LoadedModel, prompt: list[int]) -> torch.Tensor:
    """Return the model's exact distribution of the first token, (vocab,)."""
    with torch.no_grad():
        return loaded.model(torch.tensor([prompt])).logits[0, -1].softmax(-1)


def variation(a: torch.Tensor, b: torch.Tensor) -> float:
    """Return the total variation distance."""
    return float((a - b).abs().sum() / 2)


def expected_noise(p: torch.Tensor, runs: int) -> float:
    """Return the total variation that ``runs`` draws of p itself show on average."""
    generator = torch.Generator().manual_seed(1)
    draws = [torch.multinomial(p, runs, replacement=True, generator=generator) for _ in range(20)]
    counts = [torch.bincount(d, minlength=len(p)) / runs for d in draws]
    return sum(variation(c, p) for c in counts) / len(counts)
