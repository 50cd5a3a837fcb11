"""What is asked of every filter: its explanation, its tolerance and its declaration hold."""

from __future__ import annotations

import pytest
import torch
import transformers

from engine.declare.params import defaults_of, params_of
from engine.errors import ParameterError
from engine.processors import FILTERS, SAMPLING
from engine.processors.filter import CHANGES, CUTS, RESCALES
from engine.processors.removal import NO_REPLACEMENT, RemovalCase
from engine.strategies import STRATEGIES

VOCAB = 60
IDS = torch.tensor([[3, 7, 1]])
VALUES = (0.02, 0.3, 0.5, 0.7, 1.0, 1.5, 5)
"""A filter is tried with the first of these that it takes and that removes some tokens and not all."""
CUTTING = [one for one in SAMPLING if one.effect == CUTS]


def logits(seed: int) -> torch.Tensor:
    return torch.randn(1, VOCAB, generator=torch.Generator().manual_seed(seed)) * 3


def build(one, value):
    """Return the processor of a filter, this project's or that of transformers."""
    if one.build is not None:
        return one.build(value, 1)
    return getattr(transformers, f"{one.name}LogitsWarper")(value)


def kept_by(processor, scores: torch.Tensor) -> torch.Tensor:
    return processor(IDS, scores.clone()).isfinite()


def cutting_processor(one):
    """Return a processor of the filter that removes some tokens and not all."""
    kind = params_of(STRATEGIES["sampling"].config)[one.parameter]
    for value in VALUES:
        try:
            kind.check(one.parameter, value)
        except ParameterError:
            continue
        processor = build(one, value)
        if 0 < int(kept_by(processor, logits(0)).sum()) < VOCAB:
            return processor
    raise AssertionError(f"no value of {one.parameter} removes some tokens")


@pytest.mark.parametrize("one", FILTERS.values(), ids=lambda one: one.name)
def test_a_declaration_is_complete(one):
    assert one.effect in (CUTS, RESCALES, CHANGES)
    assert one.title
    config = STRATEGIES["sampling"].config
    kinds, defaults = params_of(config), defaults_of(config)
    assert one.parameter in kinds
    assert {*one.params} <= {*kinds}
    kinds[one.parameter].check(one.parameter, one.off)
    # Top-k alone is on by default, as in generate().
    assert one.name == "TopK" or defaults[one.parameter] in (one.off, None)
    assert one.term is None or one.term.params == (one.parameter,)


@pytest.mark.parametrize("one", CUTTING, ids=lambda one: one.name)
def test_every_removed_token_has_a_reason_and_survives_where_it_says(one):
    processor, scores, tried = cutting_processor(one), logits(0), 0
    for token in (~kept_by(processor, scores)[0]).nonzero()[:, 0].tolist():
        case = RemovalCase(processor, IDS, scores, 0, token, 0, None, lambda i: f"token{i}")
        found = one.explain(case)
        assert f"“token{token}”" in found.why
        assert found.why.endswith(".")
        assert set(found.changes) <= {one.parameter}
        if found.instead in (None, NO_REPLACEMENT):
            continue
        assert bool(kept_by(found.instead, scores)[0, token])
        tried += 1
    assert tried


@pytest.mark.parametrize("one", CUTTING, ids=lambda one: one.name)
def test_what_it_leaves_keeps_its_score(one):
    processor, scores = cutting_processor(one), logits(0)
    after = processor(IDS, scores.clone())
    assert torch.equal(after[after.isfinite()], scores[after.isfinite()])


@pytest.mark.parametrize(
    "one", [one for one in CUTTING if one.edge is not None], ids=lambda one: one.name
)
def test_a_difference_smaller_than_the_distance_to_the_edge_removes_the_same(one):
    processor, random = cutting_processor(one), torch.Generator().manual_seed(0)
    for seed in range(20):
        scores = logits(seed)
        kept = kept_by(processor, scores)
        if bool(kept.all()):
            continue
        distance = float(one.edge(processor, scores, kept)[0])
        assert distance >= 0
        # Two scores may move towards each other.
        margin = 0.49 * min(distance, 0.1)
        for _ in range(10):
            signs = torch.rand(scores.shape, generator=random).sub(0.5).sign()
            assert torch.equal(kept_by(processor, scores + margin * signs), kept)
