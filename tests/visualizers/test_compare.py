"""The figures of a comparison come from the runs and the scores, and from nowhere else."""

from __future__ import annotations

import dataclasses
import math

import pytest

from engine.trace.records import ModelInfo, Output, Step, Timing, Trace
from visualizers.compare.summary import COLUMNS, ComparedRun, TextComparison, comparison_view


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
    return ComparedRun(label, "Greedy", trace, -1.0, math.e, logprobs, (0.5, 0.25), ("a", "b"))


def test_rows_name_what_was_measured():
    made = comparison_view([column("A", (-0.5, -1.5)), column("B", (-0.1, -0.2))])
    named = dict(zip(COLUMNS, made["rows"][0], strict=True))
    assert named["log-probability per token, nats"] == -1.0
    assert (named["rep-2"], named["tokens"], named["seconds"]) == (0.25, 2, 0.5)
    assert (named["forward passes"], named["tokens per forward"]) == (3, 2 / 3)
    assert (named["run"], named["strategy"], named["perplexity"]) == ("A", "Greedy", math.e)
    assert named["ended by"] == "eos"
    # What was not measured stays empty; nothing is made up.
    assert named["distinct-1"] is None


def test_curves_are_in_bits():
    (curve,) = comparison_view([column("A", (-math.log(2), -2 * math.log(2)))])["curves"]
    assert curve["surprise"] == pytest.approx([1.0, 2.0])
    assert curve["entropy"] == pytest.approx([0.5 / math.log(2), 0.25 / math.log(2)], abs=1e-3)
    assert (curve["name"], curve["pieces"]) == ("A · Greedy", ["a", "b"])


def test_a_run_that_was_not_judged_has_no_curve():
    assert comparison_view([column("A", ())])["curves"][0]["surprise"] == []


def begun(*runs, vocab=(97, 97, 97)):
    """Return texts that have come to these ids; the last of them goes on."""
    texts = TextComparison()
    for number, ids in enumerate(runs):
        if number:
            texts.end()
        run = column("A", ()).trace
        run = dataclasses.replace(run, model=ModelInfo("m", vocab_size=vocab[number]), outputs=())
        texts.begin(run)
        for place, token in enumerate(ids):
            texts.add(Step(place, place, (token,)), {3: " a", 4: " b", 90: " a"})
    return texts


def parting(texts):
    """Return where all texts part, without what is said of every two."""
    found = texts.find_divergence()
    return found and {name: found[name] for name in ("common", "at")}


def test_texts_part_at_the_first_token_that_differs_or_where_one_has_ended():
    assert parting(begun((3, 4))) is None
    assert parting(begun((3, 4), ())) is None
    assert parting(begun((3, 4, 5), (3, 4, 6))) == {"common": 2, "at": 2}
    assert parting(begun((3, 4, 5), (3, 4))) == {"common": 2, "at": None}
    assert parting(begun((3, 4), (3, 4, 5))) == {"common": 2, "at": 2}
    assert parting(begun((3, 4), (3, 4), (3, 5))) == {"common": 1, "at": 1}
    ended = begun((3, 4, 5), (3, 4))
    ended.end()
    assert parting(ended) == {"common": 2, "at": 2}


def test_across_vocabularies_pieces_are_compared_and_what_is_rewritten_counts():
    assert parting(begun((3,), (90,))) == {"common": 0, "at": 0}
    texts = begun((3, 4), (90,), vocab=(97, 120))
    assert parting(texts) == {"common": 1, "at": None}
    texts.add(Step(1, 0, (4, 4)), {})
    assert parting(texts) == {"common": 0, "at": 0}


def test_every_two_texts_part_at_a_place_of_their_own():
    texts = begun((3, 4, 5), (3, 4, 6), (3, 9, 5))
    texts.end()
    assert texts.find_divergence()["pairs"] == [
        {"a": 0, "b": 1, "common": 2, "at": 2},
        {"a": 0, "b": 2, "common": 1, "at": 1},
        {"a": 1, "b": 2, "common": 1, "at": 1},
    ]


def test_a_pair_of_one_vocabulary_is_compared_by_ids_whatever_the_third_has():
    texts = begun((3, 4), (90, 4), (3, 4), vocab=(97, 97, 120))
    texts.end()
    assert [pair["at"] for pair in texts.find_divergence()["pairs"]] == [0, None, None]


def test_a_column_that_never_began_keeps_its_place():
    texts = TextComparison()
    for place in (0, 2):
        texts.begin(column("A", ()).trace, place)
        texts.add(Step(0, 0, (3 + place,)), {})
        texts.end()
    assert texts.find_divergence()["pairs"] == [{"a": 0, "b": 2, "common": 0, "at": 0}]
