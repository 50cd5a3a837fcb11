"""Constrained beam search: the recorded outputs of the last release that had it."""

from __future__ import annotations

import pytest

from engine.loops.beams.constrained import (
    ConstrainedGroup,
    ConstraintProgress,
    constrained_beam_loop,
    normalize_force_words,
)
from tests.helpers.beams import check_invariants, new_tokens, run
from tests.helpers.models import golden_cases, golden_model


def constrained(force_words_ids):
    def loop(*args, **extra):
        return constrained_beam_loop(*args, **extra, force_words_ids=force_words_ids)

    return loop


@pytest.mark.parametrize("case", golden_cases("constr", "constrD"), ids=lambda case: case["id"])
def test_equal_to_recorded_outputs(case):
    loaded, kwargs = golden_model(case["model"]), dict(case["kwargs"])
    loop = constrained(kwargs.pop("force_words_ids"))
    out, steps = run(loaded, case["input_ids"], case["attention_mask"], loop=loop, **kwargs)
    start = 1 if loaded.is_encoder_decoder else len(case["input_ids"][0])
    mine, recorded = new_tokens(out, start), case["out"]["sequences"]
    assert [row[start : start + len(own)] for own, row in zip(mine, recorded, strict=True)] == mine
    check_invariants(steps, kwargs["num_beams"], mine, by_sum=False)


def test_progress_by_hand():
    words = normalize_force_words([[[9, 11], [40]], [33]])
    assert words == (((9, 11), (40,)), ((33,),))
    start = ConstraintProgress.from_ids(words, [])
    assert (start.bank, start.next_ids(), start.is_complete) == (0, [9, 40, 33], False)
    begun = start.advance_with(9)
    assert (begun.bank, begun.next_ids(), begun.done) == (1, [11], 0)
    broken = begun.advance_with(7)
    assert (broken.bank, broken.pending) == (0, (1, 0))
    other = ConstraintProgress.from_ids(words, [5, 40])
    assert (other.bank, other.next_ids(), other.done) == (2, [33], 1)
    assert ConstraintProgress.from_ids(words, [33, 9, 11, 5]).is_complete


def test_progress_is_known_of_the_last_pool_only(monkeypatch):
    choose = ConstrainedGroup._choose_beams
    pools = []

    def chosen(group, *args):
        pool, best = choose(group, *args)
        pools.append(len(pool))
        assert set(group.progress) == {c.rank for c in pool}
        return pool, best

    monkeypatch.setattr(ConstrainedGroup, "_choose_beams", chosen)
    words = constrained([[[50, 51], [60]], [70, 71, 72]])
    run(golden_model("llama"), [[1, 5, 6, 7]], loop=words, num_beams=4, max_new_tokens=8)
    assert len(set(pools)) > 1, "a pool was smaller than one before it"


def test_every_returned_text_holds_the_words():
    out, steps = run(
        golden_model("llama"),
        [[1, 5, 6, 7]],
        loop=constrained([[[50, 51], [60]], [70, 71, 72]]),
        num_beams=4,
        max_new_tokens=14,
        num_return_sequences=2,
    )
    for row in new_tokens(out, 4):
        assert "70 71 72" in " ".join(map(str, row))
        assert "50 51" in " ".join(map(str, row)) or 60 in row
    added = [n for s in steps for n in s.detail.pool if n.reason.startswith("Added")]
    assert {n.fate for n in added} == {"kept", "pruned"}
    assert any(n.margin > 0 for s in steps for n in s.detail.pool if n.fate == "pruned")
