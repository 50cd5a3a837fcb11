"""Many draws: each seed's text is the one it gives alone; the tree adds up; cancelling is clean."""

from __future__ import annotations

import dataclasses
import math
import threading

import pytest
import torch

from engine import DecodeRequest
from engine.analysis import many_draws
from engine.analysis.many_draws import BATCH_SIZE, draw_many
from engine.errors import DecodeError, ParameterError
from engine.statistics.prefix_tree import SampledText, build_prefix_tree, count_outcomes
from tests.helpers.models import golden_model
from tests.helpers.runs import finished

PROMPT = [1, 5, 6, 7, 8, 9]


def request(seed=3, model="llama", **params):
    values = {"max_new_tokens": 5, "temperature": 0.8, "top_k": 12, **params}
    return DecodeRequest(
        "sampling", golden_model(model), input_ids=PROMPT, params=values, seed=seed
    )


ENDING = ("llama", {"max_new_tokens": 12, "sequence_bias": [[[2], 3.0]]})


def test_some_draws_end_before_others():
    model, params = ENDING
    [batch] = draw_many(request(model=model, **params), 9)
    assert len({len(draw.token_ids) for draw in batch.draws}) > 2


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("model", "params"),
    [("llama", {}), ("gpt2", {"repetition_penalty": 1.3}), ("t5", {"max_new_tokens": 12}), ENDING],
)
def test_every_seed_draws_what_it_draws_alone(model, params):
    draws = [d for batch in draw_many(request(model=model, **params), 9) for d in batch.draws]
    assert [d.seed for d in draws] == list(range(3, 12))
    for draw in draws[::2]:
        trace = finished(request(draw.seed, model, **params))
        assert draw.token_ids == trace.outputs[0].token_ids
        recorded = [
            next(c for c in step.candidates if c.token_id == step.emit[0]).processed_logprob
            for step in trace.steps
        ]
        assert draw.logprobs == pytest.approx(recorded, abs=1e-3)


def test_frequencies_come_near_the_exact_probabilities():
    chosen = request(max_new_tokens=1, top_k=4)
    draws = [d for batch in draw_many(chosen, 256) for d in batch.draws]
    loaded = golden_model("llama")
    with torch.no_grad():
        logits = loaded.model(torch.tensor([PROMPT])).logits[0, -1] / 0.8
    top = logits.topk(4)
    exact = dict(zip(top.indices.tolist(), top.values.softmax(-1).tolist(), strict=True))
    root = build_prefix_tree(draws)
    assert root.count == 256
    for child in root.children:
        assert child.probability == pytest.approx(exact[child.token_ids[0]], abs=1e-4)
        spread = math.sqrt(child.probability * (1 - child.probability) / 256)
        # Five standard errors: a false alarm once in a million.
        assert abs(child.count / 256 - child.probability) < 5 * spread + 1e-9


def test_the_tree_by_hand():
    half, third = math.log(0.5), math.log(1 / 3)
    draws = [
        SampledText(0, (1, 2, 3), (half, 0.0, third)),
        SampledText(1, (1, 2, 4), (half, 0.0, third)),
        SampledText(2, (1, 2, 3), (half, 0.0, third)),
        SampledText(3, (5,), (half,)),
        SampledText(4, (1, 2), (half, 0.0)),
    ]
    root = build_prefix_tree(draws)
    assert [(b.token_ids, b.count) for b in root.children] == [((1, 2), 4), ((5,), 1)]
    assert root.children[0].probability == pytest.approx(0.5)
    assert sum(branch.head for branch in root.children) == pytest.approx(1.0)
    leaves = root.children[0].children
    assert [(b.token_ids, b.count) for b in leaves] == [((3,), 2), ((4,), 1)]
    assert leaves[0].probability == pytest.approx(1 / 6)
    found = count_outcomes(draws)
    assert (found[0][0].token_ids, found[0][1]) == ((1, 2, 3), 2)
    assert len(found) == 4


def test_no_draws_make_an_empty_tree():
    root = build_prefix_tree([])
    assert (root.count, root.children) == (0, [])


def test_batches_come_one_by_one_and_a_cancel_ends_them_within_a_step():
    cancelled, passes = threading.Event(), []

    def count(*_):
        passes.append(1)
        if len(passes) == 4:
            cancelled.set()

    hook = golden_model("llama").model.register_forward_pre_hook(count)
    try:
        going = draw_many(request(max_new_tokens=3), 3 * BATCH_SIZE, cancelled)
        assert len(next(going).draws) == BATCH_SIZE
        assert len(passes) == 3
        assert list(going) == []
    finally:
        hook.remove()
    assert len(passes) == 4


def test_draws_that_reach_the_limit_are_reported(monkeypatch):
    short = dataclasses.replace(many_draws.SETTINGS, max_runtime_s=-1.0)
    monkeypatch.setattr(many_draws, "SETTINGS", short)
    with pytest.raises(DecodeError, match="The limit of -1 seconds was reached"):
        list(draw_many(request(), 8))


@pytest.mark.parametrize(
    ("count", "params", "says"),
    [
        (1, {}, "draws = 1"),
        (100_000, {}, "draws = 100000"),
        (True, {}, "draws = True"),
        (2.5, {}, "draws = 2.5"),
        (8, {"max_new_tokens": 65}, "max_new_tokens = 65"),
        (8, {"num_return_sequences": 2}, "num_return_sequences = 2"),
        (8, {"temperature": 0}, "temperature = 0"),
    ],
    ids=str,
)
def test_what_is_not_allowed_is_said(count, params, says):
    with pytest.raises(ParameterError, match=says.replace(".", r"\.")):
        list(draw_many(request(**params), count))


def test_only_sampling_has_draws():
    greedy = DecodeRequest("greedy", golden_model("llama"), input_ids=PROMPT)
    with pytest.raises(ParameterError, match="many draws need sampling"):
        list(draw_many(greedy, 8))
