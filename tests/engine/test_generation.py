"""Allowed outputs given as lists: the text is one of them, then ends."""

from __future__ import annotations

import pytest
import torch

from engine import DecodeRequest
from engine.run.generation import make_prefix_allowed_tokens_fn
from tests.helpers.models import golden_model
from tests.helpers.runs import finished

LISTS = ((7, 8, 9), (7, 30), (7, 8))


@pytest.mark.parametrize(
    ("so_far", "eos", "following"),
    [
        ([], (2,), [7]),
        ([7], (2,), [8, 30]),
        ([7, 8], (2, 3), [2, 3, 9]),
        ([7, 8, 9], (2,), [2]),
        ([7, 8, 9, 2], (2,), [2]),
        ([7, 30], (), list(range(50))),
        ([7, 8], (), [9]),
        ([5], (2,), [2]),
        ([5], (), list(range(50))),
    ],
    ids=str,
)
def test_what_may_follow(so_far, eos, following):
    allowed = make_prefix_allowed_tokens_fn(LISTS, 2, eos, 50)
    assert allowed(0, torch.tensor([40, 41, *so_far])) == following


def test_the_ends_a_request_names_end_the_lists():
    params = {"max_new_tokens": 6, "prefix_allowed_tokens_fn": [[7, 8]], "eos_token_id": [33]}
    request = DecodeRequest("greedy", golden_model("llama"), input_ids=[5, 9], params=params)
    output = finished(request).outputs[0]
    assert (output.token_ids, output.finish_reason) == ((7, 8, 33), "eos")
