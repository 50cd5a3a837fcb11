"""Diverse beam search: the recorded outputs of the last release that had it."""

from __future__ import annotations

import pytest

from engine.loops.beams.diverse import group_beam_loop
from tests.helpers.beams import check_invariants, new_tokens, run
from tests.helpers.models import golden_cases, golden_model


@pytest.mark.parametrize(
    "case", golden_cases("group", "group3", "group6"), ids=lambda case: case["id"]
)
def test_equal_to_recorded_outputs(case):
    loaded, kwargs = golden_model(case["model"]), dict(case["kwargs"])
    groups, penalty = kwargs.pop("num_beam_groups"), kwargs.pop("diversity_penalty")

    def loop(*args, **extra):
        options = {"num_beam_groups": groups, "diversity_penalty": penalty}
        return group_beam_loop(*args, **extra, **options)

    rows = len(case["out"]["sequences"]) // len(case["input_ids"])
    for i, ids in enumerate(case["input_ids"]):
        mask = None if case["attention_mask"] is None else [case["attention_mask"][i]]
        out, steps = run(loaded, [ids], mask, loop=loop, **kwargs)
        start = 1 if loaded.is_encoder_decoder else len(ids)
        mine = new_tokens(out, start)
        recorded = case["out"]["sequences"][i * rows : (i + 1) * rows]
        assert len(mine) == rows
        for own, row in zip(mine, recorded, strict=True):
            assert row[start : start + len(own)] == own
            assert set(row[start + len(own) :]) <= {0}
        check_invariants(steps, kwargs["num_beams"], mine)
        for node in (n for s in steps for n in s.detail.pool if n.penalised_by):
            assert node.diversity_penalty >= penalty - 1e-6
            assert all(group < node.group for group in node.penalised_by)


def test_every_end_of_a_model_has_room_in_the_pool():
    """However probable all ends are, every group goes on with as many beams as it has."""
    ends = [2, 40, 41]

    def loop(*args, **extra):
        return group_beam_loop(*args, **extra, num_beam_groups=2, diversity_penalty=0.1)

    _, steps = run(
        golden_model("llama"),
        [[1, 5, 6, 7]],
        loop=loop,
        num_beams=4,
        max_new_tokens=3,
        eos_token_id=ends,
        sequence_bias=[[[end], 20.0] for end in ends],
    )
    for group in range(2):
        own = [node for node in steps[0].detail.pool if node.group == group]
        assert {node.token_id for node in own if node.fate != "kept"} >= set(ends)
        assert sum(node.fate == "kept" for node in own) == 2


def test_a_later_group_pays_for_an_earlier_ones_choice():
    """Both groups see the same first distribution: the second loses the first's token."""
    loaded = golden_model("llama")
    options = {"num_beam_groups": 2, "diversity_penalty": 0.7}

    def loop(*args, **extra):
        return group_beam_loop(*args, **extra, **options)

    _, steps = run(loaded, [[1, 5, 6, 7]], loop=loop, num_beams=2, max_new_tokens=3)
    first, *_ = (n for n in steps[0].detail.pool if n.group == 0 and n.fate == "kept")
    same, *_ = (n for n in steps[0].detail.pool if n.group == 1 and n.token_id == first.token_id)
    assert same.penalised_by == (0,)
    assert same.diversity_penalty == pytest.approx(0.7)
    assert same.sum_logprobs == pytest.approx(first.sum_logprobs - 0.7, abs=1e-5)
