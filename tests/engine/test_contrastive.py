"""Contrastive search: recorded outputs of an older release, independent rows, the record's sums."""

from __future__ import annotations

import math

import pytest
import torch

from engine import DecodeRequest
from engine.loops.contrastive import contrastive_loop
from engine.loops.forward import Forward
from engine.strategies import STRATEGIES
from tests.helpers.loops import check_recorded, rows_together_and_alone, run_loop
from tests.helpers.models import golden_cases, golden_model, native, new_tokens
from tests.helpers.runs import finished

CASES = golden_cases("contrastive", "contrastiveA")
BATCHES = [case for case in CASES if len(case["input_ids"]) > 1]
PROMPT = [1, 5, 6, 7, 5, 6, 7, 8]


def trace_of(loaded="storyteller", **fields):
    params = {"max_new_tokens": 16, **fields.pop("params", {})}
    return finished(DecodeRequest("contrastive_search", loaded, params=params, **fields))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_equal_to_recorded_outputs(case):
    check_recorded(contrastive_loop, case)


@pytest.mark.parametrize(
    "case", [c for c in CASES if len(c["input_ids"]) == 1], ids=lambda c: c["id"]
)
def test_equal_through_a_request(case):
    loaded = golden_model(case["model"])
    start = 1 if loaded.is_encoder_decoder else len(case["input_ids"][0])
    row = case["out"]["sequences"][0][start:]
    trace = trace_of(loaded, input_ids=case["input_ids"][0], params=dict(case["kwargs"]))
    assert list(trace.outputs[0].token_ids) == new_tokens(row, loaded.eos_token_ids)
    assert trace.metrics["forward_passes"] == len(trace.steps) + 1


@pytest.mark.by_day(2)
@pytest.mark.parametrize("case", BATCHES, ids=lambda case: case["id"])
def test_a_row_is_what_it_is_alone(case):
    """Tokens and every number of the record, earlier positions counted without padding."""
    for together, alone in rows_together_and_alone(contrastive_loop, case):
        for a, b in zip(together, alone, strict=True):
            assert a.detail.chosen == b.detail.chosen
            for x, y in zip(a.detail.options, b.detail.options, strict=True):
                assert (x.token_id, x.position) == (y.token_id, y.position)
                assert x.score == pytest.approx(y.score, abs=1e-4)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_the_record_is_the_formula(name):
    """Cosines recomputed with one plain forward pass over the finished text."""
    loaded, alpha = golden_model(name), 0.6
    params = {"penalty_alpha": alpha, "top_k": 5}
    trace = trace_of(loaded, input_ids=PROMPT, params=params)
    ids = [*PROMPT, *trace.outputs[0].token_ids]
    with torch.no_grad():
        hidden = loaded.model(torch.tensor([ids]), output_hidden_states=True).hidden_states[-1][0]
    unit = hidden / hidden.norm(dim=-1, keepdim=True)
    for place, step in enumerate(trace.steps, start=len(PROMPT)):
        options, chosen = step.detail.options, step.detail.options[step.detail.chosen]
        assert chosen.token_id == step.emit[0] == ids[place]
        assert chosen.score == max(option.score for option in options)
        cosines = unit[:place] @ unit[place]
        assert chosen.max_cosine == pytest.approx(cosines.max().item(), abs=1e-4)
        assert chosen.position == cosines.argmax().item()
        for o in options:
            own = next(c for c in step.candidates if c.token_id == o.token_id)
            assert o.probability == pytest.approx(math.exp(own.processed_logprob), abs=1e-5)
            assert o.confidence == pytest.approx((1 - alpha) * o.probability, abs=2e-6)
            assert o.degeneration_penalty == pytest.approx(alpha * o.max_cosine, abs=2e-6)
            assert o.score == pytest.approx(o.confidence - o.degeneration_penalty, abs=3e-6)


def test_encoder_decoder_positions_count_the_output_only():
    trace = trace_of(
        golden_model("t5"), input_ids=PROMPT, params={"penalty_alpha": 0.6, "top_k": 4}
    )
    assert all(o.position == -1 for o in trace.steps[0].detail.options)
    for place, step in enumerate(trace.steps):
        assert all(-1 <= o.position < place for o in step.detail.options)


@pytest.mark.parametrize("name", ["llama", "gpt2", "t5"])
def test_alpha_zero_is_greedy(name):
    loaded = golden_model(name)
    trace = trace_of(loaded, input_ids=PROMPT, params={"penalty_alpha": 0.0, "top_k": 4})
    assert [list(trace.outputs[0].token_ids)] == native(
        loaded, PROMPT, do_sample=False, max_new_tokens=16
    )


def test_a_removed_token_never_wins():
    """One token is allowed: the k - 1 others must not win by being dissimilar."""
    params = {"penalty_alpha": 1.0, "top_k": 6, "prefix_allowed_tokens_fn": [[7, 7, 7, 7, 9]]}
    trace = trace_of(golden_model("llama"), input_ids=PROMPT, params=params)
    assert trace.outputs[0].token_ids[:5] == (7, 7, 7, 7, 9)
    assert len(trace.steps[0].detail.options) == 1


@pytest.mark.nightly
def test_the_presets_show_what_they_say():
    """Greedy search loops on the prompt, contrastive search does not, too much of it rambles."""
    contrastive, greedy, extreme = (
        trace_of(prompt=p.prompt, params=dict(p.params))
        for p in STRATEGIES["contrastive_search"].presets
    )
    request = DecodeRequest("greedy", prompt=greedy.prompt, params={"max_new_tokens": 100})
    assert greedy.outputs[0].token_ids == finished(request).outputs[0].token_ids
    assert greedy.metrics["rep_3"] == pytest.approx(0.84, abs=0.02)
    assert contrastive.metrics["rep_3"] == pytest.approx(0.05, abs=0.01)
    assert extreme.metrics["rep_3"] == 0
    assert extreme.metrics["perplexity"] > 3 * contrastive.metrics["perplexity"]


@pytest.mark.parametrize(("name", "copies"), [("llama", False), ("t5", True)])
def test_the_candidates_of_one_text_share_its_cache_where_no_layer_writes_into_it(
    name, copies, monkeypatch
):
    loaded, calls = golden_model(name), []
    kwargs = {"penalty_alpha": 0.6, "top_k": 4, "max_new_tokens": 6, "do_sample": False}
    ids = [[5, 6, 7, 5, 6]]
    reorder = Forward.reorder
    monkeypatch.setattr(Forward, "reorder", lambda own, rows: calls.append(reorder(own, rows)))
    shared, steps = run_loop(contrastive_loop, loaded, ids, **kwargs)
    assert bool(calls) == copies
    monkeypatch.setattr("engine.loops.contrastive._share_cache_row", lambda *place: False)
    copied, same = run_loop(contrastive_loop, loaded, ids, **kwargs)
    assert shared.tolist() == copied.tolist()
    assert [step.detail for step in steps] == [step.detail for step in same]
