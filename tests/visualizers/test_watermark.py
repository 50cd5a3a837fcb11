"""Every step of a watermarked run shows what the detector says of the text up to it."""

from __future__ import annotations

import dataclasses

import pytest

from engine import DecodeRequest
from engine.analysis.watermark_detection import detect_trace
from engine.statistics.watermark_statistics import watermark_verdict as judged
from tests.helpers.models import golden_model
from tests.helpers.runs import finished, reread
from visualizers.watermark import summary as watermark

PROMPT = [1, 5, 6, 7, 8, 9]
MARKS = [
    {},
    {"seeding_scheme": "selfhash", "context_width": 3},
    {"ignore_repeated_ngrams": True, "num_return_sequences": 2},
    {"scheme": "synthid"},
]


@pytest.mark.by_day(2)
@pytest.mark.parametrize("mark", MARKS, ids=str)
def test_hits_and_verdict_equal_the_detector(mark):
    params = {"max_new_tokens": 40, "top_k": 0, **mark}
    request = DecodeRequest("watermark", golden_model("llama"), input_ids=PROMPT, params=params)
    trace = reread(request)
    marks = watermark.WatermarkSummary(trace)
    shown = [marks.add(step) for step in trace.steps]
    for sequence in range(len(trace.outputs)):
        found = detect_trace(trace, sequence=sequence)
        own = [s for s, step in zip(shown, trace.steps, strict=True) if step.sequence == sequence]
        for values, token in zip(own, found.marks, strict=True):
            assert values["hits"] == token.hits or not token.scored
        assert own[-1]["z"] == pytest.approx(found.verdict.z_score, abs=1e-4)
        verdict = own[-1]["verdict"]
        for name, value in dataclasses.asdict(found.verdict).items():
            assert verdict[name] == (pytest.approx(value, rel=1e-3) if value else value), name
        assert own[-1]["threshold"] == found.verdict.z_threshold
        # Every step shows what a detector would say of the text up to it.
        for count, values in enumerate(own, start=1):
            part = [(m.scored, m.fresh, m.hits) for m in found.marks[:count]]
            chance = trace.steps_of(sequence)[0].detail.chance
            before = judged(part, own[0]["flips"], found.verdict.expected_fraction, chance, 3.0)
            assert (values["verdict"] is None) == (before is None)
            if before is not None:
                assert values["verdict"]["p_value"] == pytest.approx(before.p_value, rel=1e-3)
                assert values["z"] == pytest.approx(before.z_score, abs=1e-4)
            assert values["share"] == values["hits"] / values["flips"]


def test_other_strategies_have_no_mark():
    trace = finished(DecodeRequest("greedy", golden_model("llama"), input_ids=PROMPT))
    assert watermark.WatermarkSummary(trace).add(trace.steps[0]) is None
