"""XTC removes what llama.cpp's rule removes, with a coin from the run's own generator."""

from __future__ import annotations

import math
import random

import pytest
import torch
from transformers import (
    LogitsProcessorList,
    MinPLogitsWarper,
    TemperatureLogitsWarper,
)

from engine import DecodeRequest
from engine.analysis.dial_map.build import map_dial
from engine.analysis.many_draws import draw_many
from engine.errors import ParameterError
from engine.inspection.rerun import replay_to_step
from engine.inspection.why import explain_token
from engine.processors.xtc import XTCLogitsWarper
from tests.helpers.models import golden_model, native
from tests.helpers.runs import finished
from tests.helpers.strategies import PROMPT, make, trace_of

ALWAYS = {"xtc_probability": 1.0, "xtc_threshold": 0.02, "top_k": 0}


def remove(probabilities, probability, threshold, coin):
    """Return the indices that the filter keeps."""
    warper = XTCLogitsWarper(probability, threshold)
    warper.coins = torch.tensor([coin])
    scores = torch.tensor([probabilities]).log()
    left = warper(torch.zeros((1, 1), dtype=torch.long), scores)
    assert torch.equal(left[left.isfinite()], scores[left.isfinite()])
    return left[0].isfinite().nonzero()[:, 0].tolist()


@pytest.mark.parametrize(
    ("probabilities", "threshold", "kept"),
    [
        # .4 and .3 and .2 reach .1: the first two go, the least probable of the three stays.
        ([0.4, 0.3, 0.2, 0.06, 0.04], 0.1, [2, 3, 4]),
        ([0.04, 0.2, 0.06, 0.4, 0.3], 0.1, [0, 1, 2]),
        # A probability equal to the threshold reaches it.
        ([0.5, 0.25, 0.125, 0.125], 0.25, [1, 2, 3]),
        # One token alone, or none, reaches it: nothing goes.
        ([0.4, 0.3, 0.2, 0.06, 0.04], 0.35, [0, 1, 2, 3, 4]),
        ([0.4, 0.3, 0.2, 0.06, 0.04], 0.45, [0, 1, 2, 3, 4]),
        # All reach it: the least probable of the vocabulary is left alone.
        ([0.4, 0.3, 0.2, 0.06, 0.04], 0.01, [4]),
    ],
)
def test_it_removes_what_was_computed_by_hand(probabilities, threshold, kept):
    assert remove(probabilities, 0.5, threshold, coin=0.2) == kept
    assert remove(probabilities, 0.5, threshold, coin=0.5) == kept
    everything = list(range(len(probabilities)))
    assert remove(probabilities, 0.5, threshold, coin=0.51) == everything


def reference(scores, probability, threshold, coin):
    """The loop of llama.cpp: walk down the sorted tokens to the last that reaches the threshold."""
    if probability <= 0 or threshold > 0.5 or coin > probability:
        return set(range(len(scores)))
    order = sorted(range(len(scores)), key=lambda i: -scores[i])
    total = sum(math.exp(score - scores[order[0]]) for score in scores)
    last = 0
    for place, token in enumerate(order):
        if math.exp(scores[token] - scores[order[0]]) / total >= threshold:
            last = place
        else:
            break
    return set(order[last:])


@pytest.mark.parametrize("seed", range(20))
def test_it_equals_a_second_implementation_on_random_rows(seed):
    chance = random.Random(seed)
    probability, threshold = chance.random(), chance.choice([0.01, 0.05, 0.1, 0.2, 0.5])
    scores = torch.randn(8, 30, generator=torch.Generator().manual_seed(seed)) * 2
    scores[:, ::7] = -torch.inf
    warper = XTCLogitsWarper(probability, threshold)
    warper.coins = torch.rand(8, generator=torch.Generator().manual_seed(seed))
    left = warper(torch.zeros((8, 1), dtype=torch.long), scores)
    for row in range(8):
        kept = reference(scores[row].tolist(), probability, threshold, float(warper.coins[row]))
        expected = [i for i in kept if scores[row, i] > -torch.inf]
        assert left[row].isfinite().nonzero()[:, 0].tolist() == sorted(expected)


def test_a_run_draws_the_tokens_of_plain_generate_after_min_p():
    loaded = golden_model("llama")
    params = {"temperature": 1.4, "min_p": 0.05, "top_k": 0, "max_new_tokens": 12}
    xtc = {"xtc_probability": 0.5, "xtc_threshold": 0.02}
    request = DecodeRequest("sampling", loaded, input_ids=PROMPT, params={**params, **xtc}, seed=5)
    trace = finished(request)
    mode = {"do_sample": True, "top_k": 0, "max_new_tokens": 12}
    samplers = LogitsProcessorList(
        [TemperatureLogitsWarper(1.4), MinPLogitsWarper(0.05), XTCLogitsWarper(0.5, 0.02)]
    )
    expected = native(loaded, PROMPT, seed=5, **mode, logits_processor=samplers)
    assert [list(output.token_ids) for output in trace.outputs] == expected
    names = [stage.name for stage in trace.steps[0].stages]
    assert names == ["Temperature", "MinP", "XTC"]


def test_each_row_has_a_recorded_coin_that_decides():
    params = {"xtc_probability": 0.5, "xtc_threshold": 0.02, "top_k": 0, "num_return_sequences": 3}
    trace = trace_of("sampling", **params)
    [generator] = [torch.Generator().manual_seed(1)]
    first = torch.empty(3).uniform_(generator=generator)
    assert [step.stages[-1].state for step in trace.steps[:3]] == pytest.approx(first.tolist())
    cut = {step.stages[-1].kept < trace.model.vocab_size for step in trace.steps}
    assert cut == {True, False}
    for step in trace.steps:
        stage = step.stages[-1]
        assert stage.name == "XTC"
        assert (stage.kept < trace.model.vocab_size) <= (stage.state <= 0.5)


def test_off_draws_no_coin():
    plain = finished(make("sampling"))
    off = finished(make("sampling", xtc_probability=0.0, xtc_threshold=0.3))
    assert off.outputs == plain.outputs
    assert all(stage.state is None for step in off.steps for stage in step.stages)


@pytest.mark.parametrize(
    ("strategy", "params"),
    [("watermark", {}), ("dola", {"do_sample": True, "temperature": 5.0}), ("sampling", {})],
)
def test_it_comes_after_all_that_cut_and_before_a_mark(strategy, params):
    trace = trace_of(strategy, **{**ALWAYS, "top_p": 0.9, **params})
    names = [stage.name for stage in trace.steps[0].stages]
    assert names[names.index("TopP") + 1] == "XTC"
    assert any(c.removed_by == "XTC" for step in trace.steps for c in step.candidates)


@pytest.mark.parametrize(
    ("strategy", "params"),
    [
        ("beam_sampling", {"num_beams": 3}),
        ("speculative", {"do_sample": True}),
        ("prompt_lookup", {"do_sample": True}),
        ("custom", {"do_sample": True}),
    ],
)
def test_it_is_refused_where_tokens_are_not_drawn_one_by_one(strategy, params):
    with pytest.raises(ParameterError, match=r"xtc_probability = 0.5 is not allowed: .*; sampling"):
        finished(DecodeRequest(strategy, params={**params, "xtc_probability": 0.5}, prompt="A"))


def test_a_map_of_a_dial_refuses_it():
    request = make("sampling", xtc_probability=0.5)
    with pytest.raises(ParameterError, match="a dial map has no XTC"):
        next(map_dial(request, "temperature", 0.5, 1.5))


def test_many_draws_are_single_runs():
    params = {"xtc_probability": 0.5, "xtc_threshold": 0.02, "top_k": 0}
    [batch] = draw_many(make("sampling", seed=3, **params), 4)
    for draw in batch.draws:
        alone = finished(make("sampling", seed=draw.seed, **params))
        assert draw.token_ids == alone.outputs[0].token_ids


def test_why_says_which_top_choice_stayed_and_the_threshold_that_keeps_the_token():
    trace = trace_of("sampling", **ALWAYS)
    step = next(s for s in trace.steps if any(c.removed_by == "XTC" for c in s.candidates))
    removed = next(c for c in step.candidates if c.removed_by == "XTC")
    models = golden_model("llama"), None
    place = replay_to_step(trace, step.index, *models)
    answer = explain_token(place, removed.token_id)
    assert "only the least probable stays" in answer.sentence
    assert {fact.name for fact in answer.facts} >= {"Coin"}
    threshold = answer.claim.changes["xtc_threshold"]
    again = trace_of("sampling", **{**ALWAYS, "xtc_threshold": threshold})
    if step.index == 0:
        kept = next(c for c in again.steps[0].candidates if c.token_id == removed.token_id)
        assert kept.removed_by is None
    [other] = [one for one in place.views[0].processors if isinstance(one, XTCLogitsWarper)]
    assert float(other.coins[0]) == pytest.approx(step.stages[-1].state, abs=1e-6)
