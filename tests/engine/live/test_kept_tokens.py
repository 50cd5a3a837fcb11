"""What the filters keep of a partly known distribution is exact, or wrong by no more than it says."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from transformers import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from engine.endpoints.dialects import SamplerValues
from engine.live.kept_tokens import filter_listed

_SIZE = 60


def filter_all(scores: torch.Tensor, values: SamplerValues) -> torch.Tensor:
    """Return the distribution over the whole vocabulary after transformers' filters."""
    found = scores[None] / values.temperature
    if values.top_k:
        found = TopKLogitsWarper(values.top_k)(None, found)  # type: ignore[arg-type]
    if values.top_p < 1:
        found = TopPLogitsWarper(values.top_p)(None, found)  # type: ignore[arg-type]
    if values.min_p:
        found = MinPLogitsWarper(values.min_p)(None, found)  # type: ignore[arg-type]
    return found[0].softmax(-1)


@given(
    seed=st.integers(0, 10_000),
    listed=st.integers(1, _SIZE),
    spread=st.sampled_from([0.3, 1.0, 3.0, 8.0]),
    values=st.builds(
        SamplerValues,
        temperature=st.sampled_from([0.3, 0.7, 1.0, 1.7]),
        top_k=st.sampled_from([0, 1, 5, 20, 30]),
        top_p=st.sampled_from([1.0, 0.95, 0.6, 0.2]),
        min_p=st.sampled_from([0.0, 0.05, 0.4]),
    ),
)
# Top-k keeps few of the unlisted tokens, so top-p ends earlier than with all of them.
@example(0, 14, 0.3, SamplerValues(temperature=0.3, top_k=30, top_p=0.6))
def test_the_error_bounds_the_distance_from_the_whole_distribution(
    seed: int, listed: int, spread: float, values: SamplerValues
) -> None:
    scores = torch.randn(_SIZE, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    scores = (scores * spread).log_softmax(-1)
    order = scores.argsort(descending=True)[:listed]
    found = filter_listed(scores[order].tolist(), values, _SIZE)
    assert math.isclose(math.fsum(found.probabilities), 1, abs_tol=1e-9)
    assert len(found.probabilities) + len(found.removed_by) == listed
    ours = torch.zeros(_SIZE, dtype=torch.float64)
    ours[order[: len(found.probabilities)]] = torch.tensor(found.probabilities, dtype=torch.float64)
    distance = float((ours - filter_all(scores, values)).abs().sum() / 2)
    assert distance <= found.error + 1e-6
    if listed == _SIZE:
        assert found.error < 1e-9


@pytest.mark.parametrize(
    ("values", "exact"),
    [
        ({"top_k": 3}, True),
        ({"top_p": 0.6}, True),
        ({"min_p": 0.5}, True),
        ({"top_k": 4}, True),
        ({"top_k": 5}, False),
        ({"top_p": 0.95}, False),
        ({}, False),
        ({"min_p": 0.01}, False),
        ({"top_p": 0.95, "min_p": 0.5}, True),
        ({"top_k": 5, "top_p": 0.3}, True),
    ],
)
def test_a_kept_set_within_the_list_is_exact(values: dict[str, float], exact: bool) -> None:
    logprobs = [math.log(p) for p in (0.5, 0.2, 0.1, 0.05)]
    found = filter_listed(logprobs, SamplerValues(temperature=1.0, **values), 1000)  # type: ignore[arg-type]
    assert (found.error == 0) is exact


def test_the_error_of_an_unfiltered_draw_is_the_unseen_probability() -> None:
    logprobs = [math.log(p) for p in (0.5, 0.2, 0.1)]
    found = filter_listed(logprobs, SamplerValues(temperature=1.0), 1000)
    assert math.isclose(found.error, 0.2, abs_tol=1e-5)


def test_the_filter_that_removed_a_token_is_named() -> None:
    logprobs = [math.log(p) for p in (0.4, 0.3, 0.2, 0.06, 0.04)]
    values = SamplerValues(temperature=1.0, top_k=4, top_p=0.85, min_p=0.6)
    found = filter_listed(logprobs, values, 5)
    assert found.removed_by == ("MinP", "TopP", "TopK")
    assert found.probabilities == pytest.approx((4 / 7, 3 / 7))
