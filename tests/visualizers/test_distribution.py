"""What a step's pictures show of its candidates, its processors and its surprise."""

from __future__ import annotations

import math

import pytest

from tests.helpers.strategies import trace_of
from visualizers.distribution.summary import CandidateSummary, ChartSummary, StageSummary


@pytest.fixture(scope="module")
def trace():
    return trace_of("sampling", temperature=0.7, top_k=5)


def shown(fold, trace):
    begun = fold(trace)
    return [begun.add(step) for step in trace.steps]


def test_probabilities_and_what_the_candidates_leave(trace):
    for step, values in zip(trace.steps, shown(CandidateSummary, trace), strict=True):
        raw = [math.exp(c.raw_logprob) for c in step.candidates]
        processed = [math.exp(c.processed_logprob) for c in step.candidates]
        assert values["raw"] == pytest.approx(raw, rel=1e-5)
        assert values["processed"] == pytest.approx(processed, rel=1e-5)
        assert values["rest_raw"] == pytest.approx(1 - sum(raw), abs=1e-4)
        # Five tokens were left, and they are among the candidates.
        assert values["rest_processed"] == pytest.approx(0, abs=1e-4)


def test_the_needle_is_the_arrival_as_a_uniform_number(trace):
    for step, values in zip(trace.steps, shown(CandidateSummary, trace), strict=True):
        arrival = step.detail.racers[0].arrival
        assert values["drawn"]
        assert values["needle"] == pytest.approx(1 - math.exp(-arrival), abs=1e-4)


def test_a_step_without_a_draw_has_no_needle():
    for values in shown(CandidateSummary, trace_of("greedy")):
        assert (values["drawn"], values["needle"]) == (False, None)


def test_every_token_that_is_gone_was_removed_by_one_processor(trace):
    for step, values in zip(trace.steps, shown(StageSummary, trace), strict=True):
        assert values["entropy_model"] == pytest.approx(step.entropy / math.log(2), abs=1e-4)
        # Temperature removes none, and of all tokens five are left.
        assert values["removed"] == [0, trace.model.vocab_size - 5]
        assert step.stages[-1].kept == 5


def test_without_processors_the_distribution_is_used_as_it_is():
    plain = trace_of("greedy")
    for values in shown(ChartSummary, plain):
        assert values["entropy_used"] == values["entropy"]


def test_entropies_after_every_processor_are_in_bits(trace):
    for step, values in zip(trace.steps, shown(StageSummary, trace), strict=True):
        assert len(step.stages) == 2
        expected = [stage.entropy / math.log(2) for stage in step.stages]
        assert values["entropy"] == pytest.approx(expected, abs=1e-4)


def test_surprise_is_the_models_own(trace):
    for step, values in zip(trace.steps, shown(ChartSummary, trace), strict=True):
        own = next(c for c in step.candidates if c.token_id == step.emit[-1])
        assert values["surprise"] == pytest.approx(-own.raw_logprob / math.log(2), abs=1e-4)
