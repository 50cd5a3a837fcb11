"""The short cut through torch's shuffle: one token followed, the same lists and marks as transformers."""

from __future__ import annotations

import random

import pytest
import torch
from transformers import WatermarkLogitsProcessor

from engine.watermark import processors
from engine.watermark.processors import find_in_heads, make_processor
from engine.watermark.schemes import GreenList


@pytest.mark.parametrize(("vocab", "head"), [(2, 1), (5, 2), (97, 24), (97, 96), (4096, 1024)])
def test_a_token_is_in_the_head_of_torchs_permutation(vocab, head):
    rng = random.Random(vocab)
    for seed in (0, 1, 2**32, 2**64 - 2, rng.getrandbits(60)):
        order = torch.randperm(vocab, generator=torch.Generator().manual_seed(seed)).tolist()
        tokens = rng.sample(range(vocab), min(vocab, 60))
        expected = [token in set(order[:head]) for token in tokens]
        assert find_in_heads([seed] * len(tokens), tokens, vocab, head) == expected


@pytest.mark.parametrize("scheme", ["lefthash", "selfhash"])
def test_without_the_short_cut_the_answer_is_the_same(scheme, monkeypatch):
    settings = GreenList(seeding_scheme=scheme, context_width=2)
    rng = random.Random(2)
    windows = [[rng.randrange(97) for _ in range(settings.window)] for _ in range(100)]
    quick = make_processor(settings, 97, "cpu")
    assert quick.quick
    monkeypatch.setattr(processors, "_is_shuffle_known", lambda size: False)
    slow = make_processor(settings, 97, "cpu")
    assert not slow.quick
    assert quick.find_green_windows(windows) == slow.find_green_windows(windows)


@pytest.mark.parametrize("levels", [3, 50, 100_000])
def test_ties_and_removed_tokens_change_nothing(levels):
    torch.manual_seed(0)
    settings = {"seeding_scheme": "selfhash", "greenlist_ratio": 0.5, "bias": 3.0}
    ours = make_processor(GreenList(**settings), 97, "cpu")
    other = WatermarkLogitsProcessor(vocab_size=97, device="cpu", **settings)
    for kept in (97, 60, 41, 40, 39, 12):
        scores = torch.randint(0, levels, (2, 97)).float()
        scores[:, torch.randperm(97)[kept:]] = -torch.inf
        ids = torch.randint(0, 97, (2, 6))
        assert torch.equal(ours(ids, scores), other(ids, scores))
        for row, tested in zip(scores.tolist(), ours.boosted, strict=True):
            assert len(tested) == min(kept, 40)
            assert all(row[token] > -torch.inf for token in tested)


def test_transformers_fails_where_no_tested_token_is_green_and_we_do_not():
    settings = {"seeding_scheme": "selfhash", "greenlist_ratio": 1.5 / 97}
    ours = make_processor(GreenList(**settings), 97, "cpu")
    other = WatermarkLogitsProcessor(vocab_size=97, device="cpu", **settings)
    torch.manual_seed(0)
    failed = 0
    for _ in range(10):
        ids, scores = torch.randint(0, 97, (1, 6)), torch.randn(1, 97)
        marked = ours(ids, scores)
        try:
            assert torch.equal(marked, other(ids, scores))
        except IndexError:
            failed += 1
            assert torch.equal(marked, scores)
    assert failed > 0


def test_a_vocabulary_below_40_works():
    ours = make_processor(GreenList(seeding_scheme="selfhash"), 12, "cpu")
    scores = torch.zeros(1, 12)
    green = [ours.find_green_candidates(torch.tensor([3, 4]), [t])[0] for t in range(12)]
    assert ours(torch.tensor([[3, 4]]), scores)[0].tolist() == [2.0 * g for g in green]
