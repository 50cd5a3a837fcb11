"""Watermarked runs: transformers' own tokens, and live marks that are what a detector finds."""

from __future__ import annotations

import random

import pytest
import torch
from transformers import (
    SynthIDTextWatermarkingConfig,
    SynthIDTextWatermarkLogitsProcessor,
    WatermarkDetector,
    WatermarkingConfig,
)

from engine import DecodeRequest
from engine.analysis.watermark_detection import build_watermark_config, detect_ids, detect_trace
from engine.errors import ParameterError
from engine.loops import watermark as loop
from engine.trace import json_io
from engine.watermark.marks import CONTEXT_IN_PROMPT, NO_CONTEXT, START_TOKEN, Tally, mark_tokens
from engine.watermark.processors import make_processor
from engine.watermark.schemes import EXAMPLE_KEYS, GreenList, SynthId
from tests.helpers.models import golden_model, native
from tests.helpers.nightly import cross
from tests.helpers.runs import finished, reread
from tests.helpers.strategies import make
from tests.helpers.watermarks import GREEN, PROMPT_IDS, SYNTHID, finish, repetitive


def theirs(params):
    if params.get("scheme") == "synthid":
        own = {k: v for k, v in params.items() if k != "scheme"}
        return SynthIDTextWatermarkingConfig(**{"ngram_len": 5, "keys": list(EXAMPLE_KEYS), **own})
    return WatermarkingConfig(**params)


ALL = [*GREEN, *({"scheme": "synthid", **p} for p in SYNTHID)]


@pytest.mark.by_day(3)
@pytest.mark.parametrize(("params", "do_sample"), cross(ALL, [True, False]), ids=str)
def test_tokens_are_those_of_generate(params, do_sample):
    trace = finish({**params, "do_sample": do_sample})
    expected = native(
        golden_model("llama"),
        PROMPT_IDS,
        3,
        do_sample=do_sample,
        max_new_tokens=40,
        watermarking_config=theirs(params),
    )
    assert [list(o.token_ids) for o in trace.outputs] == expected


@pytest.mark.by_day(2)
@pytest.mark.parametrize("params", [{}, GREEN[4], {"scheme": "synthid"}], ids=str)
@pytest.mark.parametrize("model", ["t5", "gpt2"])
def test_batches_processors_and_other_architectures(params, model):
    more = {
        "num_return_sequences": 3,
        "temperature": 0.8,
        "top_k": 30,
        "renormalize_logits": True,
        "repetition_penalty": 1.1,
    }
    trace = finish({**params, **more}, model)
    expected = native(
        golden_model(model),
        PROMPT_IDS,
        3,
        do_sample=True,
        max_new_tokens=40,
        watermarking_config=theirs(params),
        **more,
    )
    assert [list(o.token_ids) for o in trace.outputs] == expected


def counted(trace, sequence=0):
    details = [s.detail for s in trace.steps_of(sequence)]
    return [d for d in details if d.scored]


def body(ids, eos):
    """Cut a text before its end, which transformers' detector leaves to the caller."""
    return next((ids[:i] for i, token in enumerate(ids) if token in eos), ids)


@pytest.mark.parametrize(
    ("params", "ignore", "model"), cross(GREEN, [False, True], ["llama", "t5"]), ids=str
)
def test_the_live_marks_sum_to_the_detectors_count(params, ignore, model):
    trace = finish(
        {**params, "ignore_repeated_ngrams": ignore, "eos_token_id": [96]}, model, tokens=60
    )
    ids = body(list(trace.outputs[0].token_ids), [96])
    config = golden_model(model).model.config
    theirs_says = WatermarkDetector(
        config, "cpu", WatermarkingConfig(**params), ignore_repeated_ngrams=ignore
    )(torch.tensor([ids]), return_dict=True)
    marks = counted(trace)
    assert len(marks) == theirs_says.num_tokens_scored[0]
    assert sum(d.is_green for d in marks) == theirs_says.num_green_tokens[0]
    verdict = detect_trace(trace).verdict
    assert verdict.z_score == pytest.approx(theirs_says.z_score[0], abs=1e-12)


@pytest.mark.by_day("False")
@pytest.mark.parametrize("ignore", [False, True])
def test_masks_sum_to_the_detectors_count_on_200_random_texts(ignore):
    rng, model = random.Random(5), golden_model("llama").model.config
    pairs = []
    for params in GREEN:
        config = build_watermark_config({**params, "ignore_repeated_ngrams": ignore})
        detector = WatermarkDetector(
            model, "cpu", WatermarkingConfig(**params), ignore_repeated_ngrams=ignore
        )
        pairs.append((config, detector))
    uncounted = 0
    for number in range(200):
        config, detector = pairs[number % len(pairs)]
        ids = repetitive(rng)
        ids = [model.bos_token_id, *ids] if number % 3 == 0 else ids
        expected = detector(torch.tensor([ids]), z_threshold=2.0, return_dict=True)
        found = detect_ids(ids, config, 97, bos_token_id=model.bos_token_id)
        scored = [m for m in found.marks if m.scored]
        assert len(scored) == expected.num_tokens_scored[0] == found.verdict.num_tokens_scored
        assert sum(m.is_green for m in scored) == expected.num_green_tokens[0]
        assert found.verdict.fraction == pytest.approx(expected.green_fraction[0])
        assert found.verdict.z_score == pytest.approx(expected.z_score[0], abs=1e-12)
        assert found.curve[-1] == pytest.approx(expected.z_score[0], abs=1e-12)
        assert found.verdict.p_value_normal == pytest.approx(expected.p_value[0], rel=1e-9)
        assert found.verdict.prediction == (expected.z_score[0] > 3)
        uncounted += sum(m.reason == "repeated n-gram" for m in found.marks)
    assert (uncounted > 500) is ignore


@pytest.mark.parametrize("params", SYNTHID, ids=str)
def test_g_values_and_masks_are_those_of_the_processor(params):
    scheme = SynthId(**{**params, "keys": tuple(params.get("keys", EXAMPLE_KEYS))})
    values = {**vars(scheme), "keys": list(scheme.keys)}
    theirs_does = SynthIDTextWatermarkLogitsProcessor(**values, device="cpu")
    rng = random.Random(1)
    for _ in range(20):
        ids = repetitive(rng, length=50)
        rows = torch.tensor([ids])
        g_values = theirs_does.compute_g_values(rows)[0].tolist()
        mask = theirs_does.compute_context_repetition_mask(rows)
        end = theirs_does.compute_eos_token_mask(rows, ids[30])[:, scheme.ngram_len - 1 :]
        whole = mark_tokens(ids, Tally(make_processor(scheme, 97, "cpu")))
        start = scheme.ngram_len - 1
        assert [list(m.g_values) for m in whole[start:]] == g_values
        assert [m.scored for m in whole] == [False] * start + mask[0].bool().tolist()
        cut = mark_tokens(ids, Tally(make_processor(scheme, 97, "cpu"), eos_token_ids=(ids[30],)))
        assert [m.scored for m in cut][start:] == (mask * end)[0].bool().tolist()


@pytest.mark.by_day(2)
@pytest.mark.parametrize("params", SYNTHID, ids=str)
def test_a_live_synthid_run_records_what_a_detector_finds(params):
    trace = finish({"scheme": "synthid", **params, "eos_token_id": [96]}, tokens=60)
    found = detect_trace(trace)
    for step, mark in zip(trace.steps, found.marks, strict=True):
        assert step.detail.scored == mark.scored
        assert step.detail.is_green is None
        if mark.g_values:
            assert step.detail.g_values == mark.g_values
    assert any(mark.g_values for mark in found.marks)
    assert found.verdict.trials == found.verdict.num_tokens_scored * len(trace.config["keys"])


@pytest.mark.parametrize("start", [1, 3])
def test_a_leading_start_token_is_set_aside_by_run_and_detector_alike(start):
    ids = [start, 30, 41, 52, 63, 74, 85, 40]
    config = golden_model("llama").model.config
    assert config.bos_token_id == 1
    trace = finish({"prefix_allowed_tokens_fn": [ids], "eos_token_id": [96]}, tokens=8)
    assert trace.outputs[0].token_ids == tuple(ids)
    found = detect_trace(trace)
    assert [s.detail.scored for s in trace.steps] == [mark.scored for mark in found.marks]
    assert (found.marks[0].reason == START_TOKEN) is (start == 1)
    theirs_says = WatermarkDetector(config, "cpu", WatermarkingConfig())
    expected = theirs_says(torch.tensor([ids]), return_dict=True)
    assert found.verdict.num_tokens_scored == expected.num_tokens_scored[0]


def test_every_uncounted_token_says_why():
    trace = finish(
        {"context_width": 3, "eos_token_id": [95], "bias": 0.0, "sequence_bias": [[[95], 3.0]]},
        tokens=80,
        seed=1,
    )
    reasons = [s.detail.reason for s in trace.steps]
    assert trace.outputs[0].finish_reason == "eos"
    assert reasons[:3] == [CONTEXT_IN_PROMPT] * 3
    assert reasons[-1] == "end of text"
    assert set(reasons[3:-1]) == {""}
    short = finish({"context_width": 6}, tokens=10)
    assert [s.detail.reason for s in short.steps][:6] == [NO_CONTEXT] * 2 + [CONTEXT_IN_PROMPT] * 4
    assert [s.detail.is_green is None for s in short.steps][:3] == [True, True, False]
    assert not short.steps[0].detail.marked


@pytest.mark.parametrize("params", GREEN[:1] + GREEN[4:], ids=str)
def test_the_bias_is_said_of_the_tokens_that_got_it(params):
    trace = finish({**params, "top_k": 0})
    bias = params.get("bias", 2.0)
    ratio = params.get("greenlist_ratio", 0.25)
    for step in trace.steps:
        detail = step.detail
        gains = {c.token_id: c.processed_logprob - c.raw_logprob for c in step.candidates}
        floor = min(gains.values())
        green = set(detail.green_candidates)
        assert (step.emit[0] in green) == detail.is_green
        raised = {i for i, gain in gains.items() if gain > floor + bias / 2}
        # selfhash raises the 40 best tokens only: all candidates here, unless only green ones are.
        assert raised == green or green == set(gains)
        assert detail.bias == (bias if detail.is_green else 0.0)
        if not params.get("seeding_scheme"):
            assert detail.green_fraction == pytest.approx(int(97 * ratio) / 97, abs=1e-6)


def test_a_selfhash_token_outside_the_40_tested_can_be_green_without_a_bias():
    trace = finish({"seeding_scheme": "selfhash", "temperature": 5.0, "top_k": 0}, tokens=200)
    assert any(s.detail.is_green and s.detail.bias == 0 for s in trace.steps)


def test_a_wrong_key_and_unmarked_text_are_not_detected():
    trace = finish({"bias": 6.0, "eos_token_id": [96]}, tokens=200)
    assert detect_trace(trace).verdict.z_score > 6
    assert not detect_trace(trace, {"hashing_key": 15485864}).verdict.prediction
    plain = finished(
        DecodeRequest(
            "sampling",
            golden_model("llama"),
            input_ids=PROMPT_IDS,
            seed=3,
            params={"max_new_tokens": 200, "eos_token_id": [96]},
        )
    )
    assert not detect_trace(plain).verdict.prediction


def test_greedy_has_one_outcome():
    with pytest.raises(ParameterError, match="do_sample"):
        build_watermark_config({"do_sample": False, "num_return_sequences": 2})


def test_the_trace_survives_its_file(tmp_path):
    for params in ({}, {"scheme": "synthid"}):
        trace = finish(params)
        json_io.save(trace, tmp_path / "t.json.gz")
        assert json_io.load(tmp_path / "t.json.gz") == trace


def test_closing_the_loop_closes_the_inner_one(monkeypatch):
    closed = []

    monkeypatch.setattr(loop._MarkedSequence, "detail", lambda self, step: None)
    monkeypatch.setattr(loop.dataclasses, "replace", lambda step, detail: step)

    class Step:
        sequence = 0

    def one_step():
        try:
            while True:
                yield Step()
        finally:
            closed.append(True)

    inner = one_step()  # held here, so that it does not end for want of an owner
    monkeypatch.setattr(loop, "next_token_loop", lambda *args, **kwargs: inner)
    running = loop.watermark_loop(
        None,
        torch.tensor([[1]]),
        [make_processor(GreenList(), 97, "cpu")],
        None,
        None,
        recorder=None,
        generator=None,
        tally={},
    )
    next(running)
    running.close()
    assert closed == [True]


@pytest.mark.parametrize("ratio", [0.02, 0.9999999999999999])
def test_a_share_next_to_nothing_or_everything_is_still_one_in_its_record(ratio):
    trace = reread(make("watermark", greenlist_ratio=ratio, max_new_tokens=2))
    assert all(0 < step.detail.chance < 1 for step in trace.steps)
