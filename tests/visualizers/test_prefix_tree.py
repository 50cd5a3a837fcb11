"""The tree of draws keeps every draw and every bit of probability in sight."""

from __future__ import annotations

import json
import math
import random

import pytest

from engine.statistics.prefix_tree import SampledText
from visualizers.prefix_tree.summary import COLUMNS, prefix_tree_view

PIECES = {1: " a", 2: " b", 3: " c", 4: " d"}


def drawn(number, length=3, seed=0):
    """Draw from a known distribution: every token independent, 1/2, 1/4, 1/8, 1/8."""
    chances, dice = {1: 0.5, 2: 0.25, 3: 0.125, 4: 0.125}, random.Random(seed)
    draws = []
    for i in range(number):
        ids = tuple(dice.choices(list(chances), list(chances.values()), k=length))
        draws.append(SampledText(i, ids, tuple(math.log(chances[t]) for t in ids)))
    return draws


def nodes(node):
    yield node
    for child in node["children"]:
        yield from nodes(child)


@pytest.mark.parametrize("leaves", [3, 8, 200])
def test_counts_add_up_at_every_fork(leaves):
    made = prefix_tree_view(drawn(200), PIECES, leaves=leaves)
    tree = made["tree"]
    assert (tree["count"], tree["probability"]) == (200, 1.0)
    for node in nodes(tree):
        if node["children"]:
            assert sum(child["count"] for child in node["children"]) == node["count"]
    ends = [n for n in nodes(tree) if not n["children"] and n["kind"] != "missed"]
    assert len(ends) <= leaves
    assert json.dumps(made, allow_nan=False)


def test_what_was_never_drawn_is_shown_with_its_probability():
    draws = [d for d in drawn(40, length=1) if d.token_ids != (2,)]
    tree = prefix_tree_view(draws, PIECES)["tree"]
    missed = [n for n in tree["children"] if n["kind"] == "missed"]
    assert [round(n["probability"], 6) for n in missed] == [0.25]
    assert sum(n["probability"] for n in tree["children"]) == pytest.approx(1.0)


def test_rare_branches_are_pooled_with_the_probability_of_their_first_token():
    half = math.log(0.5)
    draws = [SampledText(i, (1, 1), (half, 0.0)) for i in range(9)] + [
        SampledText(9, (2, 3, 3), (half, half, half))
    ]
    tree = prefix_tree_view(draws, PIECES, leaves=2)["tree"]
    whole = prefix_tree_view(draws, PIECES, leaves=1)["tree"]
    assert [(n["text"], n["probability"]) for n in tree["children"]] == [
        (" a a", 0.5),
        (" b c c", 0.125),
    ]
    assert whole["children"][0]["kind"] == "pooled"
    assert whole["children"][0]["probability"] == pytest.approx(1.0)


def test_the_table_counts_different_texts():
    draws = [
        SampledText(i, (1, 2) if i % 4 else (3,), (math.log(0.5),) * (2 if i % 4 else 1))
        for i in range(8)
    ]
    made = prefix_tree_view(draws, PIECES)
    first = dict(zip(COLUMNS, made["rows"][0], strict=True))
    assert (first["text"], first["times"], first["share"], first["seed"]) == (" a b", 6, 0.75, 1)
    assert first["exact probability"] == pytest.approx(0.25)
    assert first["expected times"] == pytest.approx(2.0)
    assert first["± (one sigma)"] == pytest.approx(math.sqrt(8 * 0.25 * 0.75), abs=1e-3)
    assert (made["draws"], made["distinct"]) == (8, 2)
    assert made["covered"] == pytest.approx(0.75)


def test_no_draws():
    made = prefix_tree_view([], PIECES)
    assert (made["draws"], made["distinct"], made["rows"]) == (0, 0, [])
    assert made["tree"]["children"] == []
