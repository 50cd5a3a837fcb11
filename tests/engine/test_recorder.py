"""Numbers of a step against values computed by hand."""

from __future__ import annotations

import math

import pytest
import torch
from transformers import TopKLogitsWarper

from engine.errors import DecodeError
from engine.loops.exponential_race import draw_detail
from engine.loops.recorder import Recorder, round_significant

PROBS = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
IDS = torch.tensor([[0]])


def record(processors, chosen=0, top=3, logits=None):
    recorder = Recorder(top)
    seen = recorder.observe(PROBS.log() + 2.0 if logits is None else logits, IDS, processors)
    return recorder.record(seen, torch.tensor([chosen]), 0)[0]


def test_raw_numbers():
    row = record([])
    assert row.logsumexp == pytest.approx(2.0, abs=1e-5)
    entropy = -sum(p * math.log(p) for p in PROBS[0].tolist())
    assert row.entropy == pytest.approx(entropy, abs=1e-5)
    assert [c.token_id for c in row.candidates] == [0, 1, 2]
    assert [c.rank for c in row.candidates] == [0, 1, 2]
    assert math.exp(row.candidates[1].raw_logprob) == pytest.approx(0.3, abs=1e-5)


def test_a_stage_says_what_it_kept_and_removed():
    row = record([TopKLogitsWarper(2)])
    [stage] = row.stages
    assert (stage.name, stage.kept) == ("TopK", 2)
    assert stage.kept_mass == pytest.approx(0.8, abs=1e-5)
    p = 0.5 / 0.8
    assert stage.entropy == pytest.approx(-p * math.log(p) - (1 - p) * math.log(1 - p), abs=1e-5)
    removed = {c.token_id: c.removed_by for c in row.candidates}
    assert removed == {0: None, 1: None, 2: "TopK"}
    assert row.candidates[0].processed_logprob == pytest.approx(math.log(p), abs=1e-5)


def test_the_emitted_token_is_always_there_with_its_rank():
    row = record([], chosen=3, top=2)
    assert {c.token_id: c.rank for c in row.candidates} == {0: 0, 3: 3}


class AddInPlace:
    """A processor that writes into its argument."""

    def __call__(self, input_ids, scores):
        scores[:, 3] += 10
        return scores


def test_a_processor_that_writes_in_place_does_not_change_the_raw_record():
    row = record([AddInPlace()], chosen=3)
    token = next(c for c in row.candidates if c.token_id == 3)
    assert math.exp(token.raw_logprob) == pytest.approx(0.05, abs=1e-5)
    assert row.candidates[0].token_id == 3


def test_a_processor_that_writes_in_place_changes_neither_logits_nor_the_stage_before():
    logits = PROBS.log() + 2.0
    before = logits.clone()
    alone = record([TopKLogitsWarper(4)], logits=logits)
    both = record([TopKLogitsWarper(4), AddInPlace()], logits=logits)
    assert torch.equal(logits, before)
    assert both.stages[0] == alone.stages[0]
    assert both.stages[1].entropy < 0.1 < both.stages[0].entropy
    record([AddInPlace()], logits=logits)
    assert torch.equal(logits, before)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_not_finite(bad):
    with pytest.raises(DecodeError, match="not finite at step 1"):
        record([], logits=torch.tensor([[1.0, bad, 0.0, 0.0]]))


class LeavesOne:
    """A processor that leaves one token, and writes the smallest number for the others."""

    def __init__(self, token_id):
        self.token_id = token_id

    def __call__(self, input_ids, scores):
        left = torch.full_like(scores, torch.finfo(scores.dtype).min)
        left[:, self.token_id] = scores[:, self.token_id]
        return left


class UpsideDown:
    """A processor that makes the least probable the most probable."""

    def __call__(self, input_ids, scores):
        return -scores


def test_every_rank_counts_what_is_more_probable_also_among_equals():
    torch.manual_seed(3)
    logits = torch.randn(1, 60).mul(2).round()
    own = torch.log_softmax(logits, -1)[0]
    for processors in ([], [UpsideDown()], [TopKLogitsWarper(30)]):
        for chosen in range(0, 60, 7):
            row = record(processors, chosen, top=8, logits=logits)
            assert chosen in {c.token_id for c in row.candidates}
            for c in row.candidates:
                above = int((own > own[c.token_id] + 1e-4).sum())
                level = int((own > own[c.token_id] - 1e-4).sum())
                assert above <= c.rank < level


def test_what_a_processor_leaves_of_a_removed_token_is_nothing():
    row = record([TopKLogitsWarper(2), LeavesOne(1)], chosen=1)
    first, second = row.stages
    assert (second.kept, second.entropy) == (1, 0.0)
    assert second.kept_mass == pytest.approx(0.3 / 0.8, abs=1e-5)
    assert first.entropy == pytest.approx(-sum(p * math.log(p) for p in (0.625, 0.375)), abs=1e-5)
    assert {c.token_id: c.processed_logprob for c in row.candidates} == {
        1: 0.0,
        0: -math.inf,
        2: -math.inf,
    }


def test_the_mass_of_a_token_that_comes_back_after_its_removal_is_exactly_nothing():
    class BringsBack:
        def __call__(self, input_ids, scores):
            return torch.tensor([[0.0, -torch.inf, -torch.inf, -torch.inf]])

    row = record([LeavesOne(1), BringsBack()])
    assert row.stages[1].kept_mass == 0.0


def test_the_entropy_of_a_large_vocabulary():
    torch.manual_seed(1)
    logits = torch.randn(1, 50_000) * 4
    row = record([TopKLogitsWarper(40)], int(logits.argmax()), logits=logits)
    probs = torch.softmax(logits.double(), -1)[0]
    assert row.entropy == pytest.approx(float(torch.special.entr(probs).sum()), abs=4e-6)
    kept = probs.topk(40).values
    kept = kept / kept.sum()
    assert row.stages[0].entropy == pytest.approx(float(torch.special.entr(kept).sum()), abs=4e-6)


class Spoiled:
    """A processor that makes one score no number."""

    def __call__(self, input_ids, scores):
        scores[:, 2] = float("nan")
        return scores


def test_scores_that_are_not_numbers_name_their_processor():
    with pytest.raises(DecodeError, match="became NaN in Spoiled at step 1"):
        record([TopKLogitsWarper(4), Spoiled()])


def test_a_small_probability_never_becomes_nothing():
    assert round_significant(3.256789e-9) == 3.25679e-9
    assert round_significant(0.25) == 0.25
    ids, probabilities, noise = (7, 8), (3.3e-7, 0.5), (2e-8, 1.0)
    racers = draw_detail({"racers": ids, "probability": probabilities, "noise": noise}).racers
    for racer, p, e in zip(racers, probabilities, noise, strict=True):
        assert (racer.probability, racer.noise) == (p, e)
        assert racer.arrival == pytest.approx(e / p, rel=1e-5)
