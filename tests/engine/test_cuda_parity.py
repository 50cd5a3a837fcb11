"""On a GPU: every strategy gives the tokens of transformers there, with and without CUDA graphs.

pytest -m nightly tests/engine/test_cuda_parity.py
"""

from __future__ import annotations

import copy
import dataclasses
from functools import cache

import pytest
import torch

from engine import DecodeRequest, LoadedModel, load
from engine.models import cuda_graphs
from engine.strategies import STRATEGIES
from engine.strategies.compatibility import incompatibility_reason
from tests.helpers.models import fresh_model, golden_model, native
from tests.helpers.references import SAMPLED, expected, params_of
from tests.helpers.runs import finished
from tests.helpers.strategies import OURS
from tests.helpers.zoo import made

DEVICE = "cuda"
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU"),
    pytest.mark.filterwarnings("ignore"),
]
MODELS = ("storyteller", "Llama", "Qwen2", "GPT2", "Gemma2")
NEW = 24
PROMPTS = {
    "storyteller": (
        "Once upon a time there was a small",
        "The little bear opened the door and saw",
    ),
    "": ([5, 9, 11, 4, 5, 9, 11, 33, 40, 5, 9], [7, 12, 3]),
}
SEEDS = (1, 2, 3)
DRAFTS = {
    "num_assistant_tokens": 3,
    "num_assistant_tokens_schedule": "constant",
    "assistant_confidence_threshold": 0.0,
}
RECOMPUTED = ("contrastive_search", "dola", "diverse_beam_search")
"""Strategies whose reference reads the whole text in every pass: at bfloat16 its sums are others."""


@cache
def model_on_gpu(name, dtype, draft=False):
    """Return a model, or its draft, on the GPU; another for every number format."""
    if name == "storyteller":
        loaded = load("storyteller-draft" if draft else name, DEVICE, dtype)
        return LoadedModel(loaded.model, loaded.tokenizer, loaded.name)
    model = made(name, noise=0.05 if draft else 0.0)
    return LoadedModel(model.to(DEVICE, getattr(torch, dtype)), None, name)


def drafter_of(strategy, name, dtype):
    kind = STRATEGIES[strategy].assistant
    if kind == "any_tokenizer":
        return load("foreign-draft", DEVICE, dtype)
    return None if kind == "none" else model_on_gpu(name, dtype, draft=True)


def prompts_of(name, loaded):
    if name != "storyteller":
        return PROMPTS[""]
    return tuple(loaded.tokenizer(text)["input_ids"] for text in PROMPTS[name])


def drafted(strategy, loaded, assistant, ids, seed, do_sample):
    """Return the tokens of transformers' own drafting, which reads drafts in the same passes."""
    kwargs = {"max_new_tokens": NEW, "do_sample": do_sample, "pad_token_id": 0}
    kwargs |= {"top_k": 0} if do_sample else {}
    if strategy == "prompt_lookup":
        kwargs["prompt_lookup_num_tokens"] = 3
    owner = loaded.model
    if strategy == "early_exit":
        kwargs["assistant_early_exit"] = 2
    if assistant is not None:
        owner = copy.deepcopy(assistant.model)
        kwargs["assistant_model"] = owner
    for key, value in DRAFTS.items():
        setattr(owner.generation_config, key, value)
    return native(loaded, ids, seed, **kwargs)


@pytest.fixture(params=[True, False], ids=["graphs", "plain"])
def graphs(request, monkeypatch):
    """Let passes be repeated from CUDA graphs, or not."""
    chosen = dataclasses.replace(cuda_graphs.SETTINGS, cuda_graphs=request.param)
    monkeypatch.setattr(cuda_graphs, "SETTINGS", chosen)
    return request.param


def trace_on_gpu(strategy, loaded, ids, seed, assistant=None, **params):
    request = DecodeRequest(
        strategy,
        loaded,
        input_ids=list(ids),
        params={"max_new_tokens": NEW, **params},
        seed=seed,
        assistant=assistant,
    )
    return finished(request)


def token_rows(trace):
    return [list(output.token_ids) for output in trace.outputs]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("strategy", OURS)
def test_a_strategy_gives_the_tokens_of_generate(strategy, name, dtype, graphs):
    loaded, assistant = model_on_gpu(name, dtype), None
    if STRATEGIES[strategy].assistant == "any_tokenizer" and name != "storyteller":
        pytest.skip("its models need tokenizers")
    assistant = drafter_of(strategy, name, dtype)
    assert incompatibility_reason(STRATEGIES[strategy], loaded, assistant) is None
    # transformers' own early exit fails on GPT2, and leaves the model with fewer layers.
    judged = (strategy, name) != ("early_exit", "GPT2")
    drafts = "num_assistant_tokens" in params_of(strategy) or strategy == "prompt_lookup"
    for ids in prompts_of(name, loaded):
        for seed in SEEDS if strategy in SAMPLED else SEEDS[:1]:
            trace = trace_on_gpu(strategy, loaded, ids, seed, assistant, **params_of(strategy))
            assert [note for note in trace.notes if "missing" in note] == []
            ours = token_rows(trace)
            if dtype == "float32":
                assert ours == expected(strategy, loaded, ids, NEW, seed, True), (ids, seed)
            elif drafts and judged and strategy != "universal_assisted":
                assert ours == drafted(strategy, loaded, assistant, ids, seed, False), (ids, seed)
            elif judged and strategy not in (*RECOMPUTED, "universal_assisted"):
                assert_same_tokens_at_bfloat16(trace, strategy, loaded, ids, seed)
            again = trace_on_gpu(strategy, loaded, ids, seed, assistant, **params_of(strategy))
            assert token_rows(again) == ours, "a run is the same every time"


def assert_same_tokens_at_bfloat16(trace, strategy, loaded, ids, seed):
    """Compare with generate() over a cache of the same kind, as sums differ in bfloat16 otherwise."""
    repeated = any("CUDA graphs" in note for note in trace.notes)
    more = {"cache_implementation": "static", "disable_compile": True} if repeated else {}
    kwargs = {"max_new_tokens": NEW, "do_sample": strategy in SAMPLED, "pad_token_id": 0}
    if "beam" in strategy:
        kwargs |= {"num_beams": 3, "num_return_sequences": 2}
    if strategy == "watermark":
        from transformers import WatermarkingConfig

        kwargs["watermarking_config"] = WatermarkingConfig()
    assert token_rows(trace) == native(loaded, ids, seed, **kwargs, **more), (ids, seed)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("strategy", ["speculative", "early_exit"])
@pytest.mark.parametrize("seed", SEEDS)
def test_sampled_drafting_gives_the_tokens_of_transformers(seed, strategy, dtype):
    loaded = model_on_gpu("storyteller", dtype)
    assistant = drafter_of(strategy, "storyteller", dtype)
    params = params_of(strategy) | {"do_sample": True, "top_k": 0, "plain_run": False}
    params |= DRAFTS
    if strategy == "early_exit":
        del params["plain_run"]
    for ids in prompts_of("storyteller", loaded):
        ours = trace_on_gpu(strategy, loaded, ids, seed, assistant, **params)
        assert token_rows(ours) == drafted(strategy, loaded, assistant, ids, seed, True), ids


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_passes_are_repeated_from_graphs_where_that_is_faster(dtype, graphs):
    loaded = LoadedModel(model_on_gpu("storyteller", dtype).model, None, "storyteller")
    trace = trace_on_gpu("greedy", loaded, PROMPTS[""][0], 0)
    caches = cuda_graphs._CACHES.get(loaded, {})
    assert bool(caches) == graphs
    assert any("CUDA graphs" in note for note in trace.notes) == graphs
    for held in caches.values():
        assert held.captured
        assert all(held.captured.values()), "the pass was not captured, or was no faster"


@pytest.mark.parametrize("strategy", ["greedy", "sampling", "beam_search", "dola"])
def test_numbers_of_a_run_are_those_of_a_cpu(strategy, graphs):
    params = params_of(strategy) | {"max_new_tokens": NEW}
    ids = PROMPTS[""][0]
    there = trace_on_gpu(strategy, model_on_gpu("Llama", "float32"), ids, 1, **params)
    here = finished(
        DecodeRequest(
            strategy,
            LoadedModel(made("Llama"), None, "Llama"),
            input_ids=ids,
            params=params,
            seed=1,
        )
    )
    if strategy == "sampling":  # a GPU draws other numbers
        there, here = there.steps[:1], here.steps[:1]
    else:
        assert token_rows(there) == token_rows(here)
        there, here = there.steps, here.steps
    for one, other in zip(there, here, strict=True):
        assert one.logsumexp == pytest.approx(other.logsumexp, abs=1e-3)
        assert one.entropy == pytest.approx(other.entropy, abs=1e-3)


@pytest.mark.xfail(reason="on an H100 the process of a method ended with status 1")
def test_a_custom_method_runs_in_its_sandbox():
    loaded = load("storyteller", DEVICE, "float32")
    params = {"method": "rollback_when_stuck", "arguments": {"ngram": 3}, "do_sample": False}
    request = {"prompt": "She ran and ran and", "params": {"max_new_tokens": NEW, **params}}
    there = finished(DecodeRequest("custom", loaded, **request))
    here = finished(DecodeRequest("custom", load("storyteller", "cpu", "float32"), **request))
    assert token_rows(there) == token_rows(here)


def test_a_golden_model_writes_the_same_on_both():
    held = golden_model("llama")
    copied = LoadedModel(fresh_model("llama").to(DEVICE), None, "llama")
    for ids in PROMPTS[""]:
        assert native(copied, ids, max_new_tokens=NEW, do_sample=False) == native(
            held, ids, max_new_tokens=NEW, do_sample=False
        )
