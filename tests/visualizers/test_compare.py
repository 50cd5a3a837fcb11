"""The figures of a comparison come from the runs and the scores, and from nowhere else."""

from __future__ import annotations

import math

import pytest

from engine.trace.records import ModelInfo, Output, Timing, Trace
from visualizers.compare.summary import COLUMNS, Column, view


def column(label, logprobs):
    trace = Trace(
        strategy="greedy",
        config={},
        model=ModelInfo("m"),
        versions={},
        seed=0,
        prompt="p",
        prompt_ids=(1,),
        pieces={},
        steps=(),
        outputs=(Output((5, 6), "", "eos"),),
        timing=Timing(total_s=0.5),
        metrics={"rep_2": 0.25, "forward_passes": 3, "tokens_per_forward": 2 / 3},
    )
    return Column(label, "Greedy", trace, -1.0, math.e, logprobs, (0.5, 0.25), ("a", "b"))


def test_rows_name_what_was_measured():
    made = view([column("A", (-0.5, -1.5)), column("B", (-0.1, -0.2))])
    named = dict(zip(COLUMNS, made["rows"][0], strict=True))
    assert named["log-probability per token, nats"] == -1.0
    assert (named["rep-2"], named["tokens"], named["seconds"]) == (0.25, 2, 0.5)
    assert (named["forward passes"], named["tokens per forward"]) == (3, 2 / 3)
    assert (named["run"], named["strategy"], named["perplexity"]) == ("A", "Greedy", math.e)
    assert named["ended by"] == "eos"
    # What was not measured stays empty; nothing is made up.
    assert named["distinct-1"] is None


def test_curves_are_in_bits():
    data = view([column("A", (-math.log(2), -2 * math.log(2)))])["figure"]["data"]
    assert data[0]["y"] == pytest.approx([1.0, 2.0])
    assert data[1]["y"] == pytest.approx([0.5 / math.log(2), 0.25 / math.log(2)], abs=1e-3)
    assert data[1]["yaxis"] == "y2"


def test_a_run_that_was_not_judged_has_no_curve():
    assert view([column("A", ())])["figure"]["data"][0]["y"] == []
