"""Bounds on what a server did not report: the true values are inside, step by step."""

from __future__ import annotations

import dataclasses
import math

import pytest

from engine.endpoints import import_answer
from engine.statistics.unseen_mass import divergence_bounds, entropy_bounds, unseen_mass
from tests.helpers.endpoint_answers import to_chat_answer
from tests.helpers.runs import finished
from tests.helpers.strategies import make


@pytest.mark.by_day(2)
@pytest.mark.parametrize("first", range(0, 100, 25))
def test_the_true_values_lie_inside_the_bounds_at_every_step_of_a_hundred_runs(first):
    checked = 0
    for seed in range(first, first + 25):
        params = {"temperature": 0.4 + 0.03 * seed, "top_k": 0, "max_new_tokens": 5}
        request = make("sampling", seed=seed, **params)
        trace = finished(dataclasses.replace(request, top_candidates=40))
        vocabulary = trace.model.vocab_size
        for k in (1, 5, 20):
            for joins in (True, False):
                answer = to_chat_answer(trace, k, joins=joins)
                served = import_answer(answer, vocab_size=vocabulary)
                for own, step in zip(trace.steps, served.steps, strict=True):
                    detail = step.detail
                    assert detail.entropy_low <= own.entropy <= detail.entropy_high, (seed, k)
                    listed = {c.token_id for c in step.candidates}
                    rest = 1 - math.fsum(
                        math.exp(c.raw_logprob) for c in own.candidates if c.token_id in listed
                    )
                    assert detail.unseen_low <= rest <= detail.unseen_high
                    checked += 1
    assert checked >= 25 * 6 * 3


def test_bounds_are_reached_by_the_distributions_that_they_name():
    # Half is seen; the other half is on two tokens of a quarter, or on 50 of a hundredth.
    low, high = entropy_bounds([0.25, 0.25], 0.25, 50)
    assert low == pytest.approx(4 * 0.25 * math.log(4), abs=3e-5)
    assert high == pytest.approx(0.5 * math.log(4) + 0.5 * math.log(100), abs=3e-5)


def test_a_chosen_token_below_the_list_does_not_cap_the_unseen_ones():
    # 0.1 is the chosen token's; an unseen one may have 0.4.
    low, _ = entropy_bounds([0.5, 0.1], 0.5, 10)
    truth = -(0.5 * math.log(0.5) + 0.1 * math.log(0.1) + 0.4 * math.log(0.4))
    assert low == pytest.approx(truth, abs=3e-5)


@pytest.mark.parametrize(("seen", "low", "high"), [([1.0], 0, 1e-6), ([0.7, 0.3005], 0, 0.0)])
def test_sums_around_one_leave_nothing_unseen(seen, low, high):
    found = unseen_mass(seen)
    assert found[0] == low
    assert found[1] == pytest.approx(high, abs=1e-9)


def test_bounds_of_a_divergence_are_reached_by_the_distributions_that_they_name():
    other = [0.4, 0.3, 0.2, 0.1]

    def divergence(probs):
        return math.fsum(p * math.log(p / q) for p, q in zip(probs, other, strict=True) if p)

    logs = [math.log(q) for q in other]
    # Half is seen. The other half is spread as 0.3 to 0.2 to 0.1, or fills the least likely two.
    low, high = divergence_bounds([0.5], logs[:1], 0.6, sorted(logs[1:]), 0.3)
    assert low == pytest.approx(divergence([0.5, 0.25, 0.5 / 3, 0.25 / 3]), abs=3e-5)
    assert high == pytest.approx(divergence([0.5, 0.0, 0.2, 0.3]), abs=3e-5)


def test_bounds_of_a_divergence_are_equal_where_everything_is_seen():
    probs, logs = [0.7, 0.3], [math.log(0.5)] * 2
    low, high = divergence_bounds(probs, logs, 0.0, [], 0.3)
    truth = math.fsum(p * math.log(2 * p) for p in probs)
    assert low <= truth <= high
    assert high - low < 1e-4
