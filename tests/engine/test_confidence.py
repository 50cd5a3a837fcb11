"""A draft's confidence threshold, tuned to the rounds of a run as transformers does with scikit-learn."""

from __future__ import annotations

import copy

import pytest
import torch

from engine import DecodeRequest
from engine.export.plan import plan_export
from engine.export.verify import verify_export
from engine.loops.drafting.confidence import ConfidenceThreshold, find_best_threshold
from engine.models.loading import LoadedModel
from engine.trace import json_io
from tests.helpers.drafting import (
    drafter,
    finish,
    install_scikit_learn,
    native_rounds,
    rounds,
)
from tests.helpers.runs import finished

ADAPTIVE = {"assistant_confidence_schedule": "adaptive"}
DRAFTS = {
    "num_assistant_tokens": 5,
    "num_assistant_tokens_schedule": "constant",
    "assistant_confidence_threshold": 0.1,
}


@pytest.mark.parametrize(
    ("accepted", "confidences", "expected"),
    [
        ("yyynnn", [0.9, 0.8, 0.7, 0.3, 0.2, 0.1], 0.7),
        ("nnnyyy", [0.9, 0.8, 0.7, 0.3, 0.2, 0.1], 0.1),
        ("ynnnnn", [0.5, 0.5, 0.1, 0.2, 0.1, 0.1], 0.5),
        ("yyyynn", [0.9, 0.8, 0.7, 0.1, 0.6, 0.2], 0.7),
        ("yn", [0.4, 0.4], 0.4),
    ],
)
def test_the_best_threshold_ends_drafts_before_rejected_tokens(accepted, confidences, expected):
    judged = [mark == "y" for mark in accepted]
    assert find_best_threshold(confidences, judged) == expected


def test_a_threshold_waits_for_six_judged_tokens_of_both_kinds():
    scores = torch.tensor([[0.9, 0.1]]).log()
    threshold = ConfidenceThreshold(0.4, adaptive=True)
    for number in range(1, 5):
        for token in (0, 1, 1):
            threshold.add_token(scores, token)
        threshold.update(accepted=1)
        assert len(threshold.confidences) == 2 * number, "nobody judged the third token"
        assert (threshold.value == 0.4) == (number < 3)
    assert threshold.value == pytest.approx(0.9)
    constant = ConfidenceThreshold(0.4)
    for _ in range(20):
        constant.add_token(scores, 1)
        constant.update(0)
    assert constant.value == 0.4


@pytest.mark.nightly
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_adaptive_rounds_and_tokens_are_those_of_transformers_with_scikit_learn(seed, monkeypatch):
    model, sampled = drafter("llama", 0.02), {"do_sample": seed is not None}
    more = {"top_k": 0} if seed is not None else {}
    params = DRAFTS | sampled | more | {"max_new_tokens": 40}
    draft = LoadedModel(copy.deepcopy(model), None, "draft")
    constant = finish("speculative", params, assistant=draft, seed=seed or 0)
    trace = finish("speculative", params | ADAPTIVE, assistant=draft, seed=seed or 0)
    install_scikit_learn(monkeypatch)
    tokens, native = native_rounds(
        seed or 0, DRAFTS, model, max_new_tokens=40, pad_token_id=2, **sampled, **more
    )
    assert list(trace.outputs[0].token_ids) == tokens
    assert rounds(trace) == native
    assert rounds(trace) != rounds(constant)
    assert trace.steps[0].detail.threshold == 0.1
    assert len({step.detail.threshold for step in trace.steps}) > 2
    assert {step.detail.threshold for step in constant.steps} == {None}
    assert json_io.loads(json_io.dumps(trace)) == trace


def test_without_a_threshold_nothing_is_tuned():
    free = DRAFTS | ADAPTIVE | {"assistant_confidence_threshold": 0.0, "max_new_tokens": 12}
    draft = LoadedModel(drafter("llama", 0.02), None, "draft")
    trace = finish("speculative", free, assistant=draft)
    assert {step.detail.threshold for step in trace.steps} == {None}


@pytest.mark.nightly
def test_exported_code_tunes_the_threshold_itself():
    params = {"do_sample": True, "max_new_tokens": 30, **ADAPTIVE}
    request = DecodeRequest("speculative", "storyteller", "The little bear saw", params=params)
    trace = finished(request)
    assert len({step.detail.threshold for step in trace.steps}) > 1
    assert "scikit-learn" in plan_export(trace).own.why
    assert verify_export(trace).equal
