"""Rescoring: the ranking by hand, and the moment of stopping equal to a real second search."""

from __future__ import annotations

import pytest

from engine import DecodeRequest
from engine.errors import TraceError
from engine.statistics.rescoring import rescore_hypotheses
from tests.helpers.beams import PROMPT
from tests.helpers.models import golden_model
from tests.helpers.runs import finished


def trace_of(strategy, penalty, model="llama", **params):
    loaded = golden_model(model)
    bias = [[[loaded.eos_token_ids[0]], params.pop("bias", 5.0)]]
    values = {"max_new_tokens": 14, "length_penalty": penalty, "sequence_bias": bias, **params}
    request = DecodeRequest(strategy, loaded, input_ids=PROMPT, params=values)
    return finished(request)


CASES = [
    ("beam_search", {"num_beams": 3}),
    ("beam_search", {"num_beams": 4, "early_stopping": "never"}),
    ("beam_search", {"num_beams": 4, "bias": 7.0, "early_stopping": "never"}),
    ("beam_search", {"num_beams": 2, "early_stopping": True}),
    ("beam_search", {"num_beams": 3, "bias": 1.0, "early_stopping": "never"}),
    ("diverse_beam_search", {"num_beams": 4, "num_beam_groups": 2}),
]


@pytest.mark.by_day(4)
@pytest.mark.parametrize("model", ["llama", "gpt2"])
@pytest.mark.parametrize(("strategy", "params"), CASES, ids=str)
def test_the_prediction_is_what_a_second_search_does(strategy, params, model):
    base = trace_of(strategy, 1.0, model, **params)
    outcomes, sure = set(), set()
    for penalty in (-1.0, 0.0, 0.5, 1.0, 2.0, 4.0):
        predicted = rescore_hypotheses(base, penalty)
        again = trace_of(strategy, penalty, model, **params)
        outcomes.add(predicted.ends_at)
        if predicted.ends_at is None:
            assert len(again.steps) > len(base.steps)
        elif strategy == "beam_search" or not predicted.rerun:
            assert len(again.steps) == predicted.ends_at + 1
        if not predicted.rerun:
            sure.add(penalty)
            winner = again.steps[-1].detail.winner_node_id
            assert predicted.ranking[0].node_id == winner
            assert predicted.ranking[0].score == pytest.approx(
                again.outputs[0].score, rel=1e-5, abs=1e-5
            )
    assert len(base.steps) - 1 in outcomes
    # Where the heap alone decides, or nothing ends before the longest length, penalties do not.
    alike = params.get("early_stopping") is True or params.get("bias") == 1.0
    assert (len(outcomes) == 1) is alike
    assert 1.0 in sure


def test_the_arithmetic_by_hand():
    trace = trace_of("beam_search", 1.0, num_beams=3)
    for line in rescore_hypotheses(trace, 0.5).ranking:
        assert line.score == pytest.approx(line.sum_logprobs / line.length**0.5)
    scores = [line.score for line in rescore_hypotheses(trace, 0.5).ranking]
    assert scores == sorted(scores, reverse=True)


def test_other_strategies_have_nothing_to_rescore():
    request = DecodeRequest("greedy", golden_model("llama"), input_ids=PROMPT)
    with pytest.raises(TraceError, match="no beam search"):
        rescore_hypotheses(finished(request), 1.0)
