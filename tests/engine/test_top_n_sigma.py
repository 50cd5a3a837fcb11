"""Top-n-sigma keeps what the paper's definition keeps, in every strategy that draws."""

from __future__ import annotations

import pytest
import torch
from transformers import GenerationConfig, LogitsProcessorList, TemperatureLogitsWarper

from engine import DecodeRequest
from engine.processors.top_n_sigma import TopNSigmaLogitsWarper
from tests.helpers.models import golden_model
from tests.helpers.runs import finished
from tests.helpers.strategies import PROMPT, make, trace_of

IDS = torch.zeros((3, 1), dtype=torch.long)


def reference(logits: torch.Tensor, n: float) -> torch.Tensor:
    """The definition of 2411.07641: M = {x : l(x) >= max l - n * std(l)}."""
    threshold = logits.max(dim=-1, keepdim=True).values - n * logits.std(dim=-1, keepdim=True)
    return torch.where(logits >= threshold, logits, -torch.inf)


@pytest.mark.parametrize("n", [0.1, 0.5, 1.0, 1.7, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_it_keeps_what_the_paper_keeps(n, seed):
    logits = torch.randn(3, 500, generator=torch.Generator().manual_seed(seed)) * (1 + seed)
    kept = TopNSigmaLogitsWarper(n)(IDS, logits)
    assert torch.equal(kept, reference(logits, n))
    assert 3 <= int(kept.isfinite().sum()) < logits.numel()


def test_no_temperature_changes_what_it_keeps():
    logits = torch.randn(3, 500, generator=torch.Generator().manual_seed(1))
    kept = TopNSigmaLogitsWarper(1.0)(IDS, logits).isfinite()
    for temperature in (0.2, 1.5, 5.0):
        heated = TemperatureLogitsWarper(temperature)(IDS, logits)
        assert torch.equal(TopNSigmaLogitsWarper(1.0)(IDS, heated).isfinite(), kept)


@pytest.mark.parametrize("lowest", [-torch.inf, float(torch.finfo(torch.float32).min)])
def test_removed_tokens_are_no_part_of_the_deviation(lowest):
    logits = torch.randn(1, 500, generator=torch.Generator().manual_seed(2))
    banned = logits.clone()
    banned[:, 100:] = lowest
    kept = TopNSigmaLogitsWarper(1.0)(IDS[:1], banned)
    assert torch.equal(kept[:, :100], reference(logits[:, :100], 1.0))
    assert bool((kept[:, 100:] == -torch.inf).all())


def test_beams_are_left_the_tokens_that_they_need():
    logits = torch.randn(3, 500, generator=torch.Generator().manual_seed(3))
    kept = TopNSigmaLogitsWarper(1e-6, min_tokens_to_keep=4)(IDS, logits)
    assert torch.equal(kept.topk(4).values, logits.topk(4).values)
    assert kept.isfinite().sum(-1).tolist() == [4, 4, 4]


def test_a_run_draws_the_tokens_of_plain_generate():
    loaded, params = golden_model("llama"), {"top_k": 0, "temperature": 3.0, "max_new_tokens": 12}
    request = DecodeRequest(
        "sampling", loaded, input_ids=PROMPT, params={**params, "top_n_sigma": 1.0}, seed=5
    )
    trace = finished(request)
    torch.manual_seed(5)
    out = loaded.model.generate(
        torch.tensor([PROMPT]),
        generation_config=GenerationConfig(
            do_sample=True, eos_token_id=list(trace.eos_token_ids) or None, pad_token_id=0, **params
        ),
        logits_processor=LogitsProcessorList([TopNSigmaLogitsWarper(1.0)]),
    )
    assert out[0, len(PROMPT) :].tolist() == list(trace.outputs[0].token_ids)
    assert [stage.name for stage in trace.steps[0].stages] == ["TopNSigma", "Temperature"]
    assert all(step.stages[0].kept < trace.model.vocab_size for step in trace.steps)


@pytest.mark.parametrize(
    ("strategy", "params"),
    [
        ("beam_sampling", {"num_beams": 3, "top_k": 0}),
        ("dola", {"do_sample": True}),
        ("speculative", {"do_sample": True}),
        ("prompt_lookup", {"do_sample": True}),
        ("watermark", {}),
    ],
)
def test_every_strategy_that_draws_has_it(strategy, params):
    trace = trace_of(strategy, top_n_sigma=0.8, **params)
    names = {stage.name for step in trace.steps for stage in step.stages}
    assert "TopNSigma" in names


def test_a_strategy_that_does_not_draw_leaves_it_out():
    events = finished(make("dola", top_n_sigma=0.8))
    assert not any(stage.name == "TopNSigma" for step in events.steps for stage in step.stages)
