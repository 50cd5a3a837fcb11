"""A decision that is not in doubt is the same for all logits within the margin."""

from __future__ import annotations

import pytest
import torch
import transformers as t
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.loops.recorder import Recorder
from engine.loops.tolerance import has_known_tolerance, may_change_decision
from engine.processors.top_n_sigma import TopNSigmaLogitsWarper
from engine.watermark.processors import make_processor
from engine.watermark.schemes import GreenList, SynthId

VOCAB = 40
GREEN = GreenList(0.25, 2.5, 15485863, "lefthash", 1)
CHAINS = (
    (),
    (t.TemperatureLogitsWarper(0.3),),
    (t.TemperatureLogitsWarper(1.7), t.TopKLogitsWarper(5)),
    (t.TopPLogitsWarper(0.7),),
    (t.TemperatureLogitsWarper(1.2), t.TopKLogitsWarper(20), t.TopPLogitsWarper(0.9)),
    (t.MinPLogitsWarper(0.1),),
    (t.EpsilonLogitsWarper(0.02),),
    (t.RepetitionPenaltyLogitsProcessor(1.4), t.TopKLogitsWarper(8)),
    (t.TopKLogitsWarper(8), make_processor(GREEN, VOCAB, "cpu")),
)
IDS = torch.tensor([[3, 7, 1]])


def decided(logits, chain, noise):
    """Return the token and the stages that a run would come to."""
    scores, stages = Recorder().apply_unobserved(logits, IDS, chain)
    race = scores if noise is None else scores.softmax(-1) / noise
    return int(race.argmax(-1)), stages


@pytest.mark.by_day("plain", "TemperatureLogitsWarper", "TopPLogitsWarper")
@pytest.mark.parametrize(
    "chain", CHAINS, ids=lambda c: "-".join(type(p).__name__ for p in c) or "plain"
)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), drawn=st.booleans(), exponent=st.integers(-4, -1))
def test_a_certain_decision_stays(chain, seed, drawn, exponent):
    assert has_known_tolerance(chain)
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, VOCAB, generator=random) * 2
    noise = torch.empty_like(logits).exponential_(1, generator=random) if drawn else None
    margin = 10.0**exponent
    token, stages = decided(logits, chain, noise)
    if may_change_decision(stages, logits, chain, noise, margin):
        return
    for _ in range(40):
        off = (torch.rand(logits.shape, generator=random) * 2 - 1) * margin
        # The farthest corner is where a decision turns first.
        off = off.sign() * margin if torch.rand((), generator=random) < 0.5 else off
        assert decided(logits + off, chain, noise)[0] == token


def stood(logits, chain=(), noise=None, margin=1e-4):
    logits = torch.tensor([logits])
    _, stages = decided(logits, chain, noise)
    return not may_change_decision(stages, logits, chain, noise, margin)


def test_what_is_level_is_in_doubt():
    assert stood([1.0, 2.0, 3.0])
    assert not stood([1.0, 3.0, 3.0])
    assert not stood([1.0, 2.9999, 3.0])


def test_an_edge_counts_where_it_could_change_the_token():
    level = [5.0, 2.0, 2.00001, 0.0]
    # Level at the edge of two: the token that is left out there would have won, or would not.
    chain = (t.TopKLogitsWarper(2),)
    would_win = torch.tensor([[1.0, 1e-4, 1.0, 1.0]])
    assert not stood(level, chain, would_win)
    assert stood(level, chain, torch.tensor([[1.0, 1.0, 1.0, 1e-5]]))
    # The one that was taken stands at the edge itself.
    assert not stood(level, chain, torch.tensor([[1.0, 1.0, 1e-4, 1.0]]))


def test_alone_at_the_top_is_in_no_doubt_for_being_the_last_that_is_kept():
    assert stood([9.0, 2.0, 1.0, 0.0], (t.TopPLogitsWarper(0.9),), torch.ones(1, 4))


def test_scores_that_are_not_finite_are_in_doubt():
    assert not stood([float("nan"), 2.0, 1.0])


def test_a_filter_that_removes_nothing_leaves_no_doubt():
    chain = (t.MinPLogitsWarper(0.0),)
    logits = torch.tensor([[3.0, 1.0, -2.0]])
    _, stages = decided(logits, chain, None)
    assert not may_change_decision(stages, logits, chain, None, 0.01)


@pytest.mark.parametrize(
    "processor",
    [
        t.TypicalLogitsWarper(0.5),
        t.EtaLogitsWarper(0.1),
        TopNSigmaLogitsWarper(1.0),
        make_processor(GreenList(0.25, 2.5, 15485863, "selfhash", 1), VOCAB, "cpu"),
        make_processor(SynthId(5, (1, 2, 3)), VOCAB, "cpu"),
    ],
    ids=lambda p: type(p).__name__,
)
def test_what_is_not_understood_is_said_so(processor):
    assert not has_known_tolerance([t.TopKLogitsWarper(3), processor])
