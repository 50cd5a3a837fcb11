"""What a lesson computes from records, by hand."""

from __future__ import annotations

import math

import pytest

from engine.lessons.run_values import (
    count_before_tail,
    filter_between,
    filter_equal,
    is_rising,
    join_texts,
    peak_places,
    record_with_most,
    run_record,
    watermark_verdict,
)
from engine.trace.details import WatermarkDetail
from engine.trace.records import Candidate, ModelInfo, Output, Step, Trace

RECORDS = [{"rank": 2}, {"rank": 0}, {"rank": 1}, {"rank": 0}, {"rank": 0}]


def mark(green, *, scored=True, fresh=True, g_values=()):
    return WatermarkDetail(
        scheme="synthid" if g_values else "lefthash",
        is_green=None if g_values else green,
        green_fraction=0.25,
        bias=0.0,
        context_ids=(7,),
        scored=scored,
        fresh=fresh,
        g_values=g_values,
        expected=0.5 if g_values else 0.25,
        chance=0.5 if g_values else 0.25,
    )


def run(*marks, **config):
    ids = range(3, 3 + len(marks))
    steps = (
        Step(i, i, (token,), (Candidate(token, -0.5, -0.5, 0),), detail=detail)
        for i, (token, detail) in enumerate(zip(ids, marks, strict=True))
    )
    return run_record(
        Trace(
            strategy="watermark",
            config=config,
            model=ModelInfo("m", vocab_size=97),
            versions={},
            seed=0,
            prompt="a b",
            prompt_ids=(1, 2),
            pieces={1: "a", 2: " b", 3: " c", 4: " d"},
            steps=tuple(steps),
            outputs=(Output(tuple(ids), "", "length"),),
        )
    )


def test_the_tokens_of_a_run_follow_those_of_its_prompt():
    assert run(mark(True), mark(False))["context"] == ["a", " b", " c", " d"]


def test_those_with_a_value_keep_their_order():
    assert filter_equal([{"n": 1, "g": 0}, {"n": 2, "g": 1}, {"n": 3, "g": 0}], "g", 0) == [
        {"n": 1, "g": 0},
        {"n": 3, "g": 0},
    ]
    assert filter_equal(RECORDS, "other", 1) == []


def test_numbers_between_two_the_largest_and_their_texts():
    records = [{"n": 3.0, "t": "a"}, {"n": None, "t": "b"}, {"n": 1.0, "t": "c"}, {"t": "d"}]
    assert join_texts(records, "t") == "abcd"
    assert record_with_most(records, "n")["t"] == "a"
    assert join_texts(filter_between([records[0], records[2], records[3]], "n", 1, 2), "t") == "c"


def test_the_places_that_steps_looked_at_most_and_whether_they_continue():
    def looked(*values):
        places = [{"place": i + 1, "value": v} for i, v in enumerate(values)]
        return {"looked": {"attention": {"cross": places}}}

    run = {"steps": [looked(0.9, 0.1, 0.0), {}, looked(0.2, 0.3, 0.5)]}
    found = peak_places(run, "attention", "cross")
    assert [one["place"] for one in found] == [1, 3]
    assert is_rising(found, "place")
    assert not is_rising(found[::-1], "place")
    assert not is_rising([found[0], found[0]], "place")


def test_what_comes_before_the_part_in_which_all_have_a_value():
    assert count_before_tail(RECORDS, "rank", 0) == 3
    assert count_before_tail(RECORDS[1:2], "rank", 0) == 0
    assert count_before_tail(RECORDS, "rank", 7) == len(RECORDS)


def test_a_verdict_counts_what_is_scored_and_takes_p_over_fresh_draws_alone():
    marked = run(
        mark(True), mark(True), mark(False), mark(True, fresh=False), mark(1, scored=False)
    )
    found = watermark_verdict(marked)
    assert (found["num_tokens_scored"], found["hits"]) == (4, 3)
    assert found["z_score"] == pytest.approx((3 - 1) / math.sqrt(4 * 0.25 * 0.75))
    assert found["distinct_hits"] == 2
    assert found["p_value"] == pytest.approx(3 * 0.25**2 * 0.75 + 0.25**3)


def test_a_verdict_on_the_first_tokens_leaves_the_others_out():
    marked = run(mark(True), mark(False))
    assert (
        watermark_verdict(marked, 1)["hits"]
        == watermark_verdict(marked, 1)["num_tokens_scored"]
        == 1
    )


def test_a_verdict_takes_the_threshold_of_the_run():
    marks = [mark(True)] * 4
    assert watermark_verdict(run(*marks))["prediction"]
    assert not watermark_verdict(run(*marks, z_threshold=5.0))["prediction"]


def test_a_verdict_on_keyed_bits_counts_every_bit():
    found = watermark_verdict(run(mark(None, g_values=(1, 1, 0))))
    assert (found["trials"], found["hits"]) == (3, 2)


def test_there_is_no_verdict_where_nothing_counts():
    with pytest.raises(ValueError, match="nothing counts"):
        watermark_verdict(run(mark(True, scored=False)))
