"""Passes repeated from a graph: what a GPU does with them is stood in for by tensors that are written over."""

import dataclasses
from contextlib import nullcontext

import pytest
import torch

import engine.run.run
from engine import DecodeRequest, LoadedModel, decode
from engine.models import cuda_graphs, layer_types
from engine.models.cuda_graphs import CudaGraphCache, can_use_cuda_graphs, lend_cuda_graph_cache
from engine.models.slots import can_share_passes
from tests.helpers.models import tiny_llama
from tests.helpers.zoo import KIND_NAMES, zoo_model

PROMPT = [5, 9, 11, 4, 20, 7]
CASES = {
    "greedy": {},
    "sampling": {"top_k": 20, "temperature": 1.3},
    "watermark": {},
    "beam_search": {"num_beams": 3},
    "beam_sampling": {"num_beams": 3},
    "diverse_beam_search": {"num_beams": 4, "num_beam_groups": 2},
    "dola": {},
}


class Captures:
    """Repeats a pass as a graph does: into the tensors of its first outputs, which stay where they are."""

    def __init__(self) -> None:
        self.made = self.repeated = 0

    def __call__(self, once, rewind):
        for _ in range(2):
            rewind()
            outputs = once()
        self.made += 1

        def repeat():
            self.repeated += 1
            for held, new in zip(_tensors(outputs), _tensors(once()), strict=True):
                held.copy_(new)
            return outputs

        return repeat


def _tensors(outputs):
    return [outputs.logits, *(outputs.get("hidden_states") or ())]


@pytest.fixture
def captures(monkeypatch):
    """Make every run on a CPU ask for the caches that a GPU has."""
    alone = dataclasses.replace(engine.run.run.SETTINGS, max_shared_runs=1)
    monkeypatch.setattr(engine.run.run, "SETTINGS", alone)
    made, kept = Captures(), {}

    def cache(loaded, rows, length):
        size = rows, -(-length // 16) * 16
        found = kept.setdefault((loaded, *size), CudaGraphCache(loaded.model.config, size[1], made))
        found.reset()
        return nullcontext(found)

    monkeypatch.setattr(engine.run.run.cuda_graphs, "lend_cuda_graph_cache", cache)
    return made


def run(strategy, loaded, prompt, tokens=9):
    params = {"max_new_tokens": tokens, **CASES[strategy]}
    request = DecodeRequest(strategy, loaded, input_ids=prompt, params=params, seed=3)
    return list(decode(request))[-1].trace


@pytest.mark.by_day("Llama-beam_search", "Llama-dola", "Qwen2-greedy")
@pytest.mark.parametrize("strategy", CASES)
@pytest.mark.parametrize("kind", ["Llama", "Qwen2"])
def test_a_repeated_pass_decides_what_a_pass_decides(strategy, kind, captures, monkeypatch):
    loaded = LoadedModel(tiny_llama(4, kind=kind, seed=3))
    first, again = run(strategy, loaded, PROMPT), run(strategy, loaded, PROMPT[::-1], 8)
    assert captures.made == 1, "the second run of about this length used the graph of the first"
    assert captures.repeated >= 12
    assert any("CUDA graphs" in note for note in first.notes)
    monkeypatch.undo()
    for trace, prompt, tokens in ((first, PROMPT, 9), (again, PROMPT[::-1], 8)):
        plain = run(strategy, loaded, prompt, tokens)
        assert trace.outputs[0].token_ids == plain.outputs[0].token_ids
        assert len(trace.steps) == len(plain.steps)
        for ours, theirs in zip(trace.steps, plain.steps, strict=True):
            assert ours.emit == theirs.emit
            assert ours.logsumexp == pytest.approx(theirs.logsumexp, abs=1e-4)


def test_the_tokens_are_those_of_generate_over_a_static_cache(captures):
    loaded = LoadedModel(tiny_llama(4, seed=3))
    trace = run("greedy", loaded, PROMPT, 20)
    prompt = torch.tensor([PROMPT])
    theirs = loaded.model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        do_sample=False,
        max_new_tokens=20,
        cache_implementation="static",
        disable_compile=True,
    )
    assert list(trace.outputs[0].token_ids) == theirs[0, len(PROMPT) :].tolist()
    assert captures.repeated


def test_a_pass_that_cannot_be_captured_runs_as_it_is(monkeypatch, captures):
    def never(once, rewind):
        rewind()
        once()
        raise RuntimeError("operation not permitted when stream is capturing")

    loaded = LoadedModel(tiny_llama(4, seed=3))
    wanted = run("greedy", loaded, PROMPT).outputs
    cache = CudaGraphCache(loaded.model.config, 32, never)
    monkeypatch.setattr(
        engine.run.run.cuda_graphs, "lend_cuda_graph_cache", lambda *_: nullcontext(cache)
    )
    assert run("greedy", loaded, PROMPT).outputs == wanted
    assert list(cache.captured.values()) == [None]


def test_rows_are_rearranged_where_they_are():
    cache = CudaGraphCache(tiny_llama(2).config, 8, Captures())
    keys = torch.arange(3.0)[:, None, None, None].expand(3, 2, 1, 8)
    for layer in range(2):
        cache.update(keys, keys, layer)
    there = cache.layers[1].keys.data_ptr()
    cache.reorder_cache(torch.tensor([2, 0, 2]))
    assert cache.layers[1].keys[:, 0, 0, 0].tolist() == [2, 0, 2]
    assert cache.layers[1].keys.data_ptr() == there


def test_no_graph_is_asked_of_a_cpu(monkeypatch):
    loaded = LoadedModel(tiny_llama(2))
    assert can_use_cuda_graphs(loaded)
    assert lent(loaded, 1, 20) is None
    monkeypatch.setattr(LoadedModel, "device", torch.device("cuda"))
    first = lent(loaded, 1, 20)
    assert first is not None
    assert first.get_max_length() == cuda_graphs.BLOCK
    assert lent(loaded, 1, cuda_graphs.BLOCK) is first
    for rows in range(2, 2 + cuda_graphs.MAX_CACHES):
        lent(loaded, rows, 20)
    assert lent(loaded, 1, 20) is not first, "only the newest are kept"


def lent(*asked):
    with lend_cuda_graph_cache(*asked) as cache:
        return cache


def test_two_runs_never_have_one_cache(monkeypatch):
    loaded = LoadedModel(tiny_llama(2))
    monkeypatch.setattr(LoadedModel, "device", torch.device("cuda"))
    with (
        lend_cuda_graph_cache(loaded, 1, 20) as first,
        lend_cuda_graph_cache(loaded, 1, 20) as second,
    ):
        assert first is not second


@pytest.mark.parametrize("name", KIND_NAMES)
def test_every_architecture_is_repeated_rightly_or_left_alone(name, captures):
    loaded = zoo_model(name)
    if not can_use_cuda_graphs(loaded):
        assert name not in ("Llama", "Qwen3"), "these are what most people run"
        return
    repeated = run("greedy", loaded, PROMPT).outputs[0].token_ids
    assert captures.repeated or len(repeated) == 1
    prompt = torch.tensor([PROMPT])
    plain = loaded.model.generate(
        prompt, attention_mask=torch.ones_like(prompt), do_sample=False, max_new_tokens=9
    )
    assert list(repeated) == plain[0, len(PROMPT) : len(PROMPT) + len(repeated)].tolist()


@pytest.mark.parametrize(
    "name", ["Mamba", "Mistral", "Bart", "RecurrentGemma", "Jamba", "DeepseekV4", "Falcon"]
)
def test_models_whose_passes_differ_are_left_alone(name):
    assert not can_use_cuda_graphs(zoo_model(name))


@pytest.mark.parametrize("name", ["Mamba", "Mistral", "Jamba", "DeepseekV4"])
def test_models_whose_layers_keep_more_or_less_share_no_pass(name):
    assert not can_share_passes(zoo_model(name))


def test_models_whose_positions_depend_on_the_length_of_the_text_share_nothing():
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 8}
    rope |= {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4}
    loaded = LoadedModel(tiny_llama(2, rope_parameters=rope))
    assert not can_use_cuda_graphs(loaded)
    assert not can_share_passes(loaded)


def test_a_configuration_that_names_no_layers_makes_no_run_fail(monkeypatch):
    def fails(config, **kwargs):
        raise AttributeError("per_layer_config")

    loaded = LoadedModel(tiny_llama(2))
    expected = run("greedy", loaded, PROMPT).outputs[0].token_ids
    monkeypatch.setattr(layer_types, "cache_layer_types", fails)
    assert not can_use_cuda_graphs(loaded)
    assert not can_share_passes(loaded)
    assert run("greedy", loaded, PROMPT).outputs[0].token_ids == expected
