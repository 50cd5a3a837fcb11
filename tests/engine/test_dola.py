"""DoLa: recorded outputs of an older release, its layer rules by hand, independent rows, the record."""

from __future__ import annotations

import math

import pytest
import torch

from engine import DecodeRequest, load
from engine.loops import dola, logit_lens
from engine.loops.logit_lens import (
    candidate_layers,
    compare_layers,
    final_norm,
    is_tied,
    project_layers,
)
from engine.models.loading import LoadedModel
from engine.strategies import STRATEGIES
from tests.helpers.loops import check_recorded, rows_together_and_alone
from tests.helpers.models import golden_cases, golden_model, native, new_tokens, tiny_llama
from tests.helpers.runs import failed, finished

CASES = golden_cases("dola", "dolasample")
SINGLE = [case for case in CASES if len(case["input_ids"]) == 1]
BATCHES = [case for case in CASES if len(case["input_ids"]) > 1]
PROMPT = [1, 5, 6, 7, 5, 6, 7, 8]


def trace_of(loaded="storyteller", **fields):
    params = {"max_new_tokens": 12, **fields.pop("params", {})}
    return finished(DecodeRequest("dola", loaded, params=params, **fields))


def error_of(loaded, **params):
    return str(failed(DecodeRequest("dola", loaded, input_ids=PROMPT, params=params)))


def one_layer_for_all(divergence, candidates):
    """Choose as the older release does: by the mean over the batch, so that rows depend on rows."""
    best = divergence[:, list(candidates)].mean(0).argmax()
    return torch.full((len(divergence),), candidates[best])


@pytest.mark.by_day("dola-llama_draft-low", "dola-llama2l_tied-high", "dola-llama_draft-high")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_equal_to_recorded_outputs(case, monkeypatch):
    """Batches: with the older release's shared choice of the layer put in place of our own."""
    monkeypatch.setattr(dola, "select_premature_layer", one_layer_for_all)
    check_recorded(dola.dola_loop, case)


@pytest.mark.by_day("dola-gpt2-1-high", "dola-llama_draft-low", "dola-llama_draft-high")
@pytest.mark.parametrize("case", SINGLE, ids=lambda case: case["id"])
def test_equal_through_a_request(case):
    loaded = golden_model(case["model"])
    row = case["out"]["sequences"][0][len(case["input_ids"][0]) :]
    trace = trace_of(
        loaded, input_ids=case["input_ids"][0], seed=case["seed"], params=dict(case["kwargs"])
    )
    assert list(trace.outputs[0].token_ids) == new_tokens(row, loaded.eos_token_ids)


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    "case", [c for c in BATCHES if "do_sample" not in c["kwargs"]], ids=lambda case: case["id"]
)
def test_a_row_is_what_it_is_alone(case):
    for together, alone in rows_together_and_alone(dola.dola_loop, case):
        layers = [s.detail.premature_layer for s in together]
        assert layers == [s.detail.premature_layer for s in alone]


def test_returned_sequences_do_not_depend_on_each_other():
    params = {"do_sample": True, "dola_layers": "high", "top_k": 0, "temperature": 20.0}
    one = trace_of(golden_model("gpt2"), input_ids=PROMPT, seed=4, params=params)
    three = trace_of(
        golden_model("gpt2"), input_ids=PROMPT, seed=4, params={**params, "num_return_sequences": 3}
    )
    assert three.outputs[0] == one.outputs[0]
    assert len({output.token_ids for output in three.outputs}) == 3


@pytest.mark.parametrize(
    ("chosen", "layers", "tied", "expected"),
    [
        ("low", 6, False, (0, 2)),
        ("high", 6, False, (3, 5)),
        ("low", 6, True, (2,)),
        ("low", 16, True, (2, 4, 6)),
        ("high", 16, True, (8, 10, 12, 14)),
        ("low", 32, False, (0, 2, 4, 6, 8, 10, 12, 14)),
        ("high", 32, False, (16, 18, 20, 22, 24, 26, 28, 30)),
        ("low", 40, False, (0, 2, 4, 6, 8, 10, 12, 14, 16, 18)),
        ("high", 40, True, (20, 22, 24, 26, 28, 30, 32, 34, 36, 38)),
        # Above 40 layers both ranges are 20 layers deep.
        ("low", 41, False, (0, 2, 4, 6, 8, 10, 12, 14, 16, 18)),
        ("low", 80, True, (2, 4, 6, 8, 10, 12, 14, 16, 18)),
        ("high", 41, False, (21, 23, 25, 27, 29, 31, 33, 35, 37, 39)),
        ("high", 80, False, (60, 62, 64, 66, 68, 70, 72, 74, 76, 78)),
        # Tied embeddings start at layer 2, in smaller models as high as they go.
        ("low", 4, True, (2,)),
        ("low", 3, True, ()),
        ("low", 3, False, (0,)),
        ("low", 2, True, (1,)),
        ("low", 2, False, (0,)),
        ("high", 2, True, (1,)),
        ("low", 1, True, (0,)),
        ("low", 1, False, (0,)),
        ("high", 1, True, (0,)),
        ([0, 2], 6, False, (0, 2)),
        ([2, 4, 99], 6, False, (2, 4)),
        ([4, 2, 4], 6, False, (4, 2)),
        ([5, 6], 6, False, (5,)),
        ([99], 6, False, ()),
    ],
)
def test_layer_rules_by_hand(chosen, layers, tied, expected):
    assert candidate_layers(chosen, layers, tied) == expected


def test_tied_embeddings_are_seen():
    assert is_tied(golden_model("gpt2").model)
    assert is_tied(golden_model("llama2l_tied").model)
    assert not is_tied(golden_model("llama").model)
    assert is_tied(load("storyteller").model)


def test_an_empty_range_is_refused():
    small = LoadedModel(tiny_llama(3, tie_word_embeddings=True), None, "small")
    text = error_of(small, dola_layers="low")
    assert text == (
        "dola_layers = 'low' is not allowed: it must leave a layer from 0 to 2: small has "
        "3 layers; give a list of layers."
    )


def test_other_bad_requests_get_a_sentence():
    assert "decoder-only" in error_of(golden_model("t5"), dola_layers="low")
    assert "turn do_sample on" in error_of(golden_model("llama"), num_return_sequences=2)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_the_record_is_the_formula(name):
    """Every reading recomputed from one plain forward pass over the finished text."""
    loaded = golden_model(name)
    trace = trace_of(
        loaded, input_ids=PROMPT, params={"dola_layers": [1, 2, 3], "max_new_tokens": 6}
    )
    ids, model = [*PROMPT, *trace.outputs[0].token_ids], loaded.model
    with torch.no_grad():
        out = model(torch.tensor([ids]), output_hidden_states=True)
        head, norm = model.get_output_embeddings(), final_norm(model)
        raw = torch.stack([head(h[0]).log_softmax(-1) for h in out.hidden_states])
        normed = torch.stack([head(norm(h[0])).log_softmax(-1) for h in out.hidden_states])
    raw[-1] = normed[-1] = out.logits[0].log_softmax(-1)
    for place, step in enumerate(trace.steps, start=len(PROMPT) - 1):
        detail = step.detail
        assert [r.layer for r in detail.layers] == list(range(loaded.layers + 1))
        for r in detail.layers:
            _check_reading(r.entropy, r.rank, r.logprob, r.top, raw[r.layer, place], step.emit[0])
            _check_reading(
                r.normed_entropy,
                r.normed_rank,
                r.normed_logprob,
                r.normed_top,
                normed[r.layer, place],
                step.emit[0],
            )
        apart = {r.layer: r.divergence for r in detail.layers}
        assert apart.pop(loaded.layers) is None
        for layer, value in apart.items():
            assert value == pytest.approx(
                _js(raw[layer, place], raw[-1, place]), rel=1e-3, abs=1e-7
            )
        assert detail.candidate_layers == (1, 2, 3)
        assert detail.premature_layer == max((1, 2, 3), key=apart.get)
        final = raw[-1, place]
        assert detail.kept == (final >= final.max() + math.log(0.1)).sum().item()
        contrast = final - raw[detail.premature_layer, place]
        for token, value in detail.contrast_top:
            assert value == pytest.approx(contrast[token].item(), rel=1e-4, abs=1e-3)
        assert step.stages[0].name == "LayerContrast"
        assert step.stages[0].kept == detail.kept


@pytest.mark.parametrize("spread", [0.5, 4.0, 60.0])
def test_divergence_and_entropy_are_those_of_the_library_also_where_nearly_all_is_impossible(
    spread,
):
    generator = torch.Generator().manual_seed(5)
    scores = torch.randn(2, 7, 3000, generator=generator) * spread
    premature, final = scores[:, :-1].log_softmax(-1), scores[:, -1].log_softmax(-1)
    apart, entropy = compare_layers(premature, final)
    last = final[:, None].expand_as(premature)
    mean = 0.5 * (last.exp() + premature.exp())
    parts = [
        torch.nn.functional.kl_div(logprobs, mean, reduction="none").mean(-1)
        for logprobs in (last, premature)
    ]
    torch.testing.assert_close(apart, 0.5 * (parts[0] + parts[1]), rtol=1e-5, atol=0)
    expected = torch.special.entr(premature.double().exp()).sum(-1).float()
    torch.testing.assert_close(entropy, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 3])
def test_layers_read_in_portions_say_what_they_say_at_once(rows, monkeypatch):
    loaded = load("storyteller")
    ids = torch.tensor([PROMPT]).repeat(rows, 1)
    with torch.no_grad():
        outputs = loaded.model(ids, output_hidden_states=True)
    found = []
    for numbers in (1, 5 * loaded.vocab_size, 2**30):
        monkeypatch.setattr(logit_lens, "_CPU_CACHE_VALUES", numbers)
        with torch.no_grad():
            read = project_layers(loaded.model, outputs.hidden_states, outputs.logits[:, -1])
        found.append({**vars(read), **logit_lens.layer_columns(read, torch.arange(5, 5 + rows))})
    one, some, at_once = found
    torch.testing.assert_close(one, at_once)
    torch.testing.assert_close(some, at_once)


def test_the_head_reads_layers_as_they_are_and_normed():
    loaded = load("storyteller")
    ids = torch.tensor([PROMPT])
    with torch.no_grad():
        outputs = loaded.model(ids, output_hidden_states=True)
        read = project_layers(loaded.model, outputs.hidden_states, outputs.logits[:, -1])
        head, norm = loaded.model.get_output_embeddings(), final_norm(loaded.model)
        for layer, state in enumerate(outputs.hidden_states[:-1]):
            for found, hidden in (
                (read.raw, state[:, -1]),
                (read.normed, norm(state[:, -1])),
            ):
                expected = head(hidden).log_softmax(-1)
                torch.testing.assert_close(found[:, layer], expected, rtol=1e-5, atol=1e-3)


def _check_reading(entropy, rank, logprob, top, logprobs, token):
    assert entropy == pytest.approx(-(logprobs.exp() * logprobs).sum().item(), abs=1e-3)
    assert rank == (logprobs > logprobs[token]).sum().item()
    assert logprob == pytest.approx(logprobs[token].item(), rel=1e-4, abs=1e-3)
    assert [i for i, _ in top] == logprobs.topk(len(top)).indices.tolist()
    assert [p for _, p in top] == pytest.approx(
        logprobs.topk(len(top)).values.exp().tolist(), abs=1e-4
    )


def _js(a, b):
    """Half of the mean terms of KL(M, a) and of KL(M, b), written out token by token."""
    total = 0.0
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        m = 0.5 * (math.exp(x) + math.exp(y))
        total += 0.5 * m * (math.log(m) - x) + 0.5 * m * (math.log(m) - y)
    return total / len(a)


def test_one_fixed_layer_is_greedy_search_over_its_contrast():
    """transformers' own greedy search, given the contrast as a processor, takes the same tokens."""
    loaded = golden_model("llama")
    seen = {}

    def contrast(input_ids, scores):
        del input_ids
        final = scores.log_softmax(-1)
        keep = final >= final.max() + math.log(0.1)
        return torch.where(keep, final - seen["premature"], -torch.inf)

    def spy(module, args, output):
        del module, args
        states = output[0] if isinstance(output, tuple) else output
        head = loaded.model.get_output_embeddings()
        seen["premature"] = head(states[:, -1]).float().log_softmax(-1)

    hook = loaded.model.model.layers[2].register_forward_hook(spy)
    try:
        expected = native(
            loaded, PROMPT, do_sample=False, max_new_tokens=12, logits_processor=[contrast]
        )
    finally:
        hook.remove()
    trace = trace_of(loaded, input_ids=PROMPT, params={"dola_layers": [3]})
    assert [list(trace.outputs[0].token_ids)] == expected


def test_presets_run_and_use_the_layers_they_name():
    traces = [
        trace_of(prompt=p.prompt, params={**p.params, "max_new_tokens": 8})
        for p in STRATEGIES["dola"].presets
    ]
    candidates = [trace.steps[0].detail.candidate_layers for trace in traces]
    assert candidates == [(8, 10, 12, 14), (2, 4, 6), (12,)]
