"""The lossless report: exact distributions, a planted bug, near ties, the plain run."""

from __future__ import annotations

import dataclasses
import types
from collections import Counter
from typing import Any

import pytest
import torch
import transformers

from engine.errors import EngineError
from engine.loops.drafting import assisted, lossless_check
from engine.loops.drafting.assistant import AssistantDrafter
from engine.loops.drafting.drafter import RunContext
from engine.loops.host_transfer import start_transfer
from engine.loops.recorder import Observation, Recorder, Row
from engine.trace.details import DraftReport
from tests.helpers.drafting import finish
from tests.helpers.models import golden_model

VOCAB = 12
DRAWS = 6_000


class Chain:
    """A language model in twelve lines: the next token depends on the last one alone."""

    base_model_prefix = "model"

    def __init__(self, table: torch.Tensor) -> None:
        self.config = transformers.LlamaConfig(
            vocab_size=VOCAB, hidden_size=8, num_hidden_layers=1, num_attention_heads=1
        )
        self.table, self.device, self.dtype = table, torch.device("cpu"), torch.float32

    def _supports_logits_to_keep(self) -> bool:
        return False

    def _update_model_kwargs_for_generation(self, outputs: Any, kwargs: Any, **more: Any) -> Any:
        del outputs, more
        return kwargs

    def prepare_inputs_for_generation(self, ids: torch.Tensor, **kwargs: Any) -> dict[str, Any]:
        return {"input_ids": ids, "past_key_values": kwargs["past_key_values"]}

    def __call__(self, input_ids: torch.Tensor, past_key_values: Any, **kwargs: Any) -> Any:
        return types.SimpleNamespace(logits=self.table[input_ids], past_key_values=past_key_values)

    forward = __call__

    def _supports_default_dynamic_cache(self) -> bool:
        return True

    def get_output_embeddings(self) -> None:
        return None


class Quick(Recorder):
    """Records the numbers of the verdict only."""

    def observe(
        self, logits: torch.Tensor, input_ids: torch.Tensor, processors: Any
    ) -> Observation:
        return Observation(logits, logits, logits, [])

    def record(self, seen: Any, chosen: Any, step: int, extra: Any = None) -> list[Row]:
        return [Row((), (), 0.0, 0.0, start_transfer(extra)()[0])]


def tables(noise: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (12, 12) logits of a target and of a draft that differs by ``noise``."""
    generator = torch.Generator().manual_seed(3)
    target = torch.randn((VOCAB, VOCAB), generator=generator)
    return target, target + noise * torch.randn((VOCAB, VOCAB), generator=generator)


def p_of_pairs(monkeypatch: pytest.MonkeyPatch, noise: float) -> tuple[float, float]:
    """Return the p-values of first tokens and of pairs over many draws of the real loop."""
    monkeypatch.setattr(lossless_check, "Recorder", lambda top: Quick())
    target, draft = (Chain(table) for table in tables(noise))
    config = transformers.GenerationConfig(
        do_sample=True,
        max_length=5,
        num_assistant_tokens=3,
        num_assistant_tokens_schedule="constant",
        assistant_confidence_threshold=0.0,
    )
    config._eos_token_tensor = None
    context = RunContext(target, torch.tensor([[4]]), [], config, torch.Generator())
    generator = torch.Generator().manual_seed(11)

    def make(run: RunContext) -> AssistantDrafter:
        return AssistantDrafter(run, draft)

    prepared = {"past_key_values": transformers.DynamicCache(), "use_cache": True}
    pairs = [
        tuple(lossless_check.sample_short_run(context, prepared, make, generator, 2))
        for _ in range(DRAWS)
    ]
    p = target.table.softmax(-1)
    first = {(a,): float(p[4, a]) for a in range(VOCAB)}
    both = {(a, b): float(p[4, a] * p[a, b]) for a in range(VOCAB) for b in range(VOCAB)}
    ones = lossless_check.chi_square_test(Counter(pair[:1] for pair in pairs), first, 1)
    return ones.p_value, lossless_check.chi_square_test(Counter(pairs), both, 2, most=144).p_value


@pytest.mark.nightly
@pytest.mark.parametrize("noise", [0.3, 3.0])
def test_sampled_tokens_have_the_targets_distribution(monkeypatch, noise):
    one, two = p_of_pairs(monkeypatch, noise)
    assert one > 0.001
    assert two > 0.001


@pytest.mark.nightly
def test_taking_the_targets_token_instead_of_the_residual_is_caught(monkeypatch):
    monkeypatch.setattr(assisted, "residual_distribution", lambda p, q: p)
    one, two = p_of_pairs(monkeypatch, 3.0)
    assert one < 1e-6
    assert two < 1e-6


def test_p_values_are_those_of_the_tables():
    assert lossless_check.chi_square_p_value(3.841, 1) == pytest.approx(0.05, abs=1e-4)
    assert lossless_check.chi_square_p_value(18.307, 10) == pytest.approx(0.05, abs=1e-4)
    assert lossless_check.chi_square_p_value(0.0, 0) == 1.0


def report_of(strategy: str, params: dict[str, Any], **more: Any) -> DraftReport:
    """Return the report of a run; only the last round carries one."""
    trace = finish(strategy, params, **more)
    *others, last = trace.steps
    assert all(step.detail.report is None for step in others)
    return last.detail.report


def test_a_greedy_run_is_checked_against_the_targets_own_path():
    params = {"max_new_tokens": 20, "repetition_penalty": 1.3, "plain_run": True}
    report = report_of("speculative", params, assistant=golden_model("llama_draft"))
    assert (report.checked, report.parting, report.plain_identical) == (20, None, True)
    assert report.plain_tokens == 20
    assert report.plain_s > 0


@pytest.mark.parametrize("name", ["t5", "gpt2"])
def test_the_check_works_for_other_architectures(name):
    report = report_of("prompt_lookup", {"max_new_tokens": 12}, model=golden_model(name))
    assert report.parting is None
    assert report.checked > 0


def test_a_wrong_token_is_found_with_both_logits(monkeypatch):
    right = assisted.verify_draft

    def wrong(guess: Any, scores: torch.Tensor, *rest: Any) -> assisted.RoundVerification:
        verdict = right(guess, scores, *rest)
        second = int(scores[verdict.accepted].topk(2).indices[1])
        return dataclasses.replace(verdict, final=second)

    monkeypatch.setattr(assisted, "verify_draft", wrong)
    report = report_of("prompt_lookup", {"max_new_tokens": 6, "plain_run": True})
    assert report.plain_identical is False
    parting = report.parting
    assert parting.position == 0
    assert parting.gap == pytest.approx(parting.expected_logit - parting.emitted_logit, abs=1e-5)
    assert not parting.near_tie


def test_a_near_tie_is_reported_as_such():
    context = types.SimpleNamespace(model=Chain(torch.zeros(1)))
    scores = torch.tensor([3.0, 3.0 + 2e-6])
    assert lossless_check._make_parting(context, 0, 0, 1, scores).near_tie
    assert not lossless_check._make_parting(context, 0, 0, 1, torch.tensor([3.0, 3.1])).near_tie


@pytest.mark.nightly
def test_a_mixture_has_no_badge_and_another_distribution():
    """Judged by a mixture more is accepted, nothing is checked, and the difference is measured."""
    params = {
        "max_new_tokens": 20,
        "num_assistant_tokens": 4,
        "assistant_confidence_threshold": 0.0,
    }
    lossy = params | {"assistant_ensemble_weight": 0.1}
    draft = golden_model("llama_draft")
    report = report_of("speculative", lossy, assistant=draft)
    assert (report.checked, report.parting) == (0, None)
    sampled = {"do_sample": True, "top_k": 0, "suppress_tokens": [0], "distribution_runs": 300}
    p_values = [
        report_of("speculative", p | sampled, assistant=draft).distributions[0].p_value
        for p in (params, lossy)
    ]
    assert p_values[0] > 1e-3
    assert p_values[1] < 1e-6


@pytest.mark.nightly
def test_a_sampled_run_compares_distributions_on_request():
    params = {
        "max_new_tokens": 6,
        "do_sample": True,
        "top_k": 0,
        "distribution_runs": 300,
        "num_assistant_tokens": 3,
        "suppress_tokens": [0],
    }
    report = report_of("speculative", params, assistant=golden_model("llama_draft"))
    assert (report.checked, report.plain_identical) == (0, None)
    assert [check.length for check in report.distributions] == [1, 2]
    for check in report.distributions:
        assert check.p_value > 0.001
        assert sum(count for _, count, _ in check.bins) == check.runs == 300


def test_a_distribution_of_greedy_search_is_refused():
    with pytest.raises(EngineError, match="do_sample"):
        finish("prompt_lookup", {"distribution_runs": 10})
