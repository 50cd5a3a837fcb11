"""A converted decoder says what torch says, however its cache is picked, repeated, cut and copied."""

from __future__ import annotations

import copy
import inspect

import pytest
import torch
from transformers import DynamicCache

from engine.loops.drafting.assistant import view_first_layers
from engine.models.capabilities import capabilities_of, final_norm
from engine.models.openvino.cache import GraphCache
from engine.models.openvino.comparison import TOLERANCE, largest_difference
from engine.models.openvino.graph_conversion import conversion_refusal
from tests.helpers.graphs import on_openvino
from tests.helpers.models import VOCAB
from tests.helpers.zoo import KINDS, zoo_model

pytest.importorskip("openvino")
pytestmark = pytest.mark.filterwarnings("ignore")
EVERYDAY = ("GPT2", "GPTNeoX", "OPT", "Gemma2")
DECODERS = [
    pytest.param(name, marks=() if name in EVERYDAY else pytest.mark.nightly)
    for name, kind in KINDS.items()
    if "ConditionalGeneration" not in kind.model
]
DIFFERENT = {"DiffLlama"}
"""Architectures whose graphs give other logits, for which they are refused once they are converted."""
REFUSED = {
    "Mamba": "its layers keep a running state, or a cache that cannot be cut",
    "Lfm2": "its layers keep a running state, or a cache that cannot be cut",
    "Bart": "it is an encoder-decoder, and only decoders are converted",
    "Mixtral": "which of its experts read a token is decided while it runs",
}


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    model = zoo_model("Llama").model
    return model, on_openvino(model, tmp_path_factory.mktemp("llama"))


def ids_of(rows, length, seed=0):
    drawn = torch.Generator().manual_seed(seed)
    return torch.randint(3, VOCAB, (rows, length), generator=drawn)


def apart(one, other):
    return float((one - other).abs().max())


@pytest.mark.parametrize("name", DECODERS)
def test_every_architecture_converts_rightly_or_is_refused(name, tmp_path):
    model = zoo_model(name).model
    if conversion_refusal(model) is not None:
        return
    converted = on_openvino(model, tmp_path)
    difference = largest_difference(model, converted, ids_of(1, 40))
    if name in DIFFERENT:
        assert difference > TOLERANCE
        return
    assert difference < TOLERANCE
    can = capabilities_of(converted)
    assert can == capabilities_of(model)
    ids = ids_of(2, 9)
    own, other = (m(ids, output_hidden_states=True).hidden_states for m in (model, converted))
    assert len(own) == len(other)
    assert all(apart(a, b) < TOLERANCE for a, b in zip(own, other, strict=True))
    head, norm = model.get_output_embeddings(), final_norm(model)
    states = torch.randn(2, 3, head.weight.shape[1])
    assert apart(head(states), converted.get_output_embeddings()(states)) < TOLERANCE
    if norm is not None:
        assert apart(norm(states), final_norm(converted)(states)) < TOLERANCE
    if can.exits:
        views = (view_first_layers(one, 2)(ids).logits for one in (model, converted))
        assert apart(*views) < TOLERANCE


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_graph_is_refused_before_anything_runs(name):
    assert conversion_refusal(zoo_model(name).model) == REFUSED[name]


@pytest.mark.parametrize("hides", [True, False])
def test_the_cache_does_what_transformers_own_does(llama, hides):
    model, converted = llama
    own, graph = DynamicCache(), GraphCache(converted.graphs.whole, hides=hides)

    def step(new, seed, rows=2):
        assert graph.get_seq_length() == own.get_seq_length()
        ids = ids_of(len(graph.rows) or rows, new, seed)
        pairs = ((model, own), (converted, graph))
        assert apart(*(m(ids, past_key_values=c).logits for m, c in pairs)) < TOLERANCE

    step(7, 1)
    for seed, (act, *given) in enumerate(
        [
            ("batch_repeat_interleave", 3),
            ("crop", -3),
            ("batch_select_indices", torch.tensor([5, 0, 2])),
            ("crop", -1),
            ("reorder_cache", torch.tensor([2, 0, 0, 1])),
            ("crop", -2),
        ]
    ):
        for cache in (own, graph):
            getattr(cache, act)(*given)
        step(3, seed)
    twin, other = copy.deepcopy(graph), copy.deepcopy(own)
    step(2, 8)
    ids = ids_of(4, 1, 9)
    found = (m(ids, past_key_values=c).logits for m, c in ((model, other), (converted, twin)))
    assert apart(*found) < TOLERANCE
    for cache in (own, graph):
        cache.crop(-cache.get_seq_length())
    # transformers' own keeps its number of rows when it is empty.
    step(4, 10, rows=4)


def test_many_hidden_positions_are_given_up_for_good(llama):
    model, converted = llama
    own, graph = DynamicCache(), converted.new_cache()
    for seed in range(8):
        ids = ids_of(1, 14, seed)
        for one, cache in ((model, own), (converted, graph)):
            one(ids, past_key_values=cache)
            cache.crop(-12)
        assert graph.state_length < 70 + 14
    ids = ids_of(1, 2)
    found = (m(ids, past_key_values=c).logits for m, c in ((model, own), (converted, graph)))
    assert apart(*found) < TOLERANCE
    with pytest.raises(ValueError, match="give minus the number"):
        graph.crop(3)


def test_a_request_serves_the_next_text_and_forgets_the_last(llama):
    model, converted = llama
    ids, free = ids_of(1, 5), len(converted.graphs.whole._free)
    for _ in range(2):
        graph = converted.new_cache()
        assert apart(model(ids).logits, converted(ids, past_key_values=graph).logits) < TOLERANCE
        del graph
    assert len(converted.graphs.whole._free) == max(free, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"past_key_values": DynamicCache()}, "has its own cache, not a DynamicCache"),
        ({"attention_mask": torch.ones(1, 1, 3, 3)}, r"a mask of \(rows, positions\) only"),
        ({"inputs_embeds": torch.ones(1, 3, 32)}, "reads token ids only"),
    ],
)
def test_what_a_graph_cannot_read_is_refused(llama, given, said):
    with pytest.raises(Exception, match=said):
        llama[1](ids_of(1, 3), **given)


def test_generate_is_transformers_own(llama):
    model, converted = llama
    assert type(converted).generate is type(model).generate
    assert inspect.signature(converted.forward) == inspect.signature(model.forward)
    prompt = ids_of(1, 6)
    for options in ({}, {"num_beams": 3}, {"num_beams": 4, "num_return_sequences": 2}):
        rows = (
            m.generate(prompt, max_new_tokens=12, **options).tolist() for m in (model, converted)
        )
        own, other = rows
        assert own == other
    assert conversion_refusal(model) is None
