"""The figures of a comparison come from the runs and the scores, and from nowhere else."""

from __future__ import annotations

import dataclasses
import math

import pytest

from engine.trace.records import ModelInfo, Output, Step, Timing, Trace
from visualizers.compare.measures import compute_measures, find_verdict
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
    assert named["end"] == "eos"
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


def test_vocabularies_of_one_size_with_other_pieces_are_compared_by_pieces():
    texts = begun((3, 4), ())
    texts.add(Step(0, 0, (5,)), {5: " a"})
    assert parting(texts) == {"common": 0, "at": 0}
    texts.add(Step(1, 1, ()), {3: " b"})
    assert parting(texts) == {"common": 1, "at": None}


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


def scored(perplexity, *, label="A", repeats=0.0, passes=40, tokens=40, seconds=1.0):
    """Return a scored run with these numbers."""
    metrics = {"rep_3": repeats, "distinct_1": 0.5, "forward_passes": passes}
    output = Output(tuple(range(tokens)), "", "length")
    trace = dataclasses.replace(
        column(label, ()).trace,
        metrics=metrics,
        outputs=(output,),
        timing=Timing(total_s=seconds),
    )
    return ComparedRun(label, "Greedy", trace, perplexity=perplexity)


def runs(**by_label):
    """Return the runs of one seed."""
    return {label: scored(label=label, **numbers) for label, numbers in by_label.items()}


def test_a_cell_has_the_mean_of_the_seeds_and_a_tick_for_each():
    seeds = [
        runs(A={"perplexity": 2.0, "seconds": 1.0}, B={"perplexity": 8.0, "seconds": 4.0}),
        runs(A={"perplexity": 8.0, "seconds": 2.0}, B={"perplexity": None, "seconds": 0.0}),
    ]
    rows = {row["name"]: row["cells"] for row in compute_measures(seeds)}
    first, second = rows["seconds"]
    assert (first["mean"], [tick["value"] for tick in first["ticks"]]) == (1.5, [1.0, 2.0])
    # Bars of a row have one scale, up to its largest value.
    assert [tick["share"] for tick in second["ticks"]] == [1.0, 0.0]
    assert first["share"] == pytest.approx(1.5 / 4)
    # Perplexities differ by orders of magnitude: their bars show the logarithm.
    first, second = rows["perplexity"]
    assert first["mean"] == pytest.approx(4)
    assert first["share"] == pytest.approx(2 / 3)
    assert [tick["share"] for tick in first["ticks"]] == pytest.approx([1 / 3, 1])
    assert (second["mean"], len(second["ticks"])) == (pytest.approx(8), 1)
    # What no run measured has neither a mean nor a tick.
    nothing = compute_measures([runs(A={"perplexity": None}, B={"perplexity": None})])[0]["cells"]
    assert nothing == [{"mean": None, "share": 0.0, "ticks": []}] * 2


def test_the_verdict_names_the_likeliest_text_and_what_speaks_against_it():
    plain = runs(A={"perplexity": 3.0}, B={"perplexity": 2.0}, C={"perplexity": 9.0})
    found = find_verdict([plain])["likeliest"]
    assert (found["best"], found["rival"], found["worst"]) == ("B", "A", "C")
    assert (found["best_perplexity"], found["worst_perplexity"]) == pytest.approx((2.0, 9.0))
    assert (found["is_equal"], found["repeats"], found["in_spread"]) == (False, None, False)
    looping = runs(A={"perplexity": 3.0, "repeats": 0.1}, B={"perplexity": 2.0, "repeats": 0.4})
    assert find_verdict([looping])["likeliest"]["repeats"] == 0.4
    looping["A"] = scored(3.0, label="A", repeats=0.4)
    assert find_verdict([looping])["likeliest"]["repeats"] is None
    same = runs(A={"perplexity": 2.0}, B={"perplexity": 2.0})
    assert find_verdict([same])["likeliest"]["is_equal"]
    assert find_verdict([runs(A={"perplexity": 2.0})])["likeliest"] is None
    assert find_verdict([])["likeliest"] is None


def test_a_lead_smaller_than_the_spread_of_the_seeds_is_said():
    near = [
        runs(A={"perplexity": 2.0}, B={"perplexity": 2.4}),
        runs(A={"perplexity": 2.6}, B={"perplexity": 2.5}),
    ]
    far = [
        runs(A={"perplexity": 2.0}, B={"perplexity": 6.0}),
        # A wide spread on the same side leaves the lead as it is.
        runs(A={"perplexity": 2.6}, B={"perplexity": 90.0}),
    ]
    assert [find_verdict(seeds)["likeliest"]["in_spread"] for seeds in (near, far)] == [True, False]


def test_the_costs_are_passes_for_the_tokens_that_they_wrote():
    drafted = runs(
        A={"perplexity": 2.0, "passes": 12, "tokens": 60},
        B={"perplexity": 2.0, "passes": 10, "tokens": 10},
    )
    costs = find_verdict([drafted])["passes"]
    assert costs["least"] == {"label": "A", "passes": 12, "tokens": 60}
    assert costs["most"]["label"] == "B"
    assert not costs["per_token"]
    assert find_verdict([runs(A={"perplexity": 1.5}, B={"perplexity": 2.5})])["passes"]["per_token"]
