"""What a table says of its settings: clear leads, spreads, and what is missing."""

from __future__ import annotations

import numpy as np
import pytest

from engine import Table, read_plan
from engine.analysis.tune.cell_result import CellResult
from engine.analysis.tune.measures import MEASURES
from engine.analysis.tune.plan import Cell
from engine.analysis.tune.table_files import to_markdown
from engine.analysis.tune.votes import Vote, read_votes
from engine.errors import EngineError
from engine.statistics.paired_bootstrap import compare_pairs


def filled(values, settings=2, **changes):
    """Return a table whose runs have given values: setting -> prompt -> seed -> value."""
    plan = read_plan(
        {
            "prompts": [f"Prompt {n}" for n in range(len(values[0]))],
            "settings": [
                {"strategy": "sampling", "name": f"S{n}", "params": {"temperature": 0.5 + n / 10}}
                for n in range(len(values))
            ],
            "seeds": len(values[0][0]),
            **changes,
        }
    )
    table = Table(plan)
    for setting, prompts in enumerate(values):
        for prompt, seeds in enumerate(prompts):
            for seed, found in enumerate(seeds):
                cell = Cell(prompt, setting, seed)
                table.add(CellResult(cell, "a", (1, 2), "length", found))
    return table


def repeats(rows, **changes):
    return filled(
        [[[{"repeats": v, "perplexity": 3.0} for v in p] for p in r] for r in rows], **changes
    )


def test_a_difference_needs_prompts_that_agree():
    a, random = np.zeros((10, 3)), np.random.default_rng(1)
    clear = compare_pairs(a + 1, a + random.normal(0, 0.1, a.shape))
    assert clear.is_clear
    assert clear.low < clear.mean < clear.high
    assert not compare_pairs(random.normal(0, 1, a.shape), random.normal(0, 1, a.shape)).is_clear
    assert compare_pairs(a[:1, :1], a[:1, :1]).low is None
    assert compare_pairs(a * np.nan, a) is None


def test_a_difference_within_the_spread_of_the_seeds_is_none():
    # Every prompt and seed agrees on 0.1, but another seed moves both settings by 0.2.
    base = np.tile([0.0, 0.2], (5, 1))
    found = compare_pairs(base + 0.1, base)
    assert found.low == pytest.approx(0.1)
    assert found.seed_spread == pytest.approx(0.2)
    assert not found.is_clear


def test_the_verdict_names_a_clear_lead_and_what_qualifies_it():
    table = repeats([[[0.0, 0.01]] * 4, [[0.3, 0.31]] * 4])
    assert "S0 repeats least: 0.5 %. S1 comes next: 30 %" in table.verdict("repeats")
    for setting, prompt, seed in ((0, p, s) for p in range(4) for s in range(2)):
        cell = Cell(prompt, setting, seed)
        table.add(CellResult(cell, "a", (1, 2), "length", {"repeats": 0.0, "perplexity": 90.0}))
    assert "But its texts are also the strangest: perplexity 90." in table.verdict("repeats")


def test_the_verdict_calls_no_lead_that_is_smaller_than_the_spread():
    table = repeats([[[0.0, 0.3]] * 4, [[0.1, 0.4]] * 4])
    assert table.verdict("repeats").startswith("No clear lead: S0 has 15 % and S1 has 25 %")
    assert (
        repeats([[[0.1]] * 4, [[0.2]] * 4])
        .verdict("repeats")
        .startswith("S0 repeats least in these texts: 10 %. They are too few")
    )
    assert (
        repeats([[[0.1, 0.1]], [[0.1, 0.1]]])
        .verdict("repeats")
        .startswith("S0 and S1 have the same")
    )


def test_what_is_missing_is_not_recorded_and_comes_last():
    table = repeats([[[None, None]] * 2, [[0.2, 0.3]] * 2, [[0.4, 0.5]] * 2])
    assert [row.setting for row in table.rows("repeats")] == [1, 2, 0]
    assert "| S0 | not recorded |" in to_markdown(table, "repeats")
    for measure in table.plan.measures:
        assert table.verdict(measure)


def votes(a, b, won, lost, prompt=0, even=0):
    """Return votes between two settings, of which the first won so many."""
    each = [a] * won + [b] * lost + [None] * even
    return [Vote(prompt, (a, b), preferred) for preferred in each]


def voted(*given):
    table = repeats([[[0.1, 0.2]] * 2, [[0.2, 0.3]] * 2, [[0.2, 0.3]] * 2])
    return Table(table.plan, [vote for one in given for vote in one])


def test_votes_are_a_measure_once_there_are_any():
    table = voted()
    assert "votes" not in table.measures
    with pytest.raises(EngineError):
        table.rows("votes")
    table = voted(votes(0, 1, 3, 7), votes(0, 1, 0, 2, prompt=1, even=4))
    rows = table.rows("votes")
    assert [(row.setting, row.mean) for row in rows] == [(1, 9 / 12), (0, 3 / 12), (2, None)]
    assert [row.means for row in rows] == [(0.7, 1.0), (0.3, 0.0), (None, None)]
    assert "not recorded" in to_markdown(table, "votes")


def test_only_a_significant_preference_is_called_one():
    clear = voted(votes(0, 1, 14, 4)).verdict("votes")
    assert clear.startswith("S0 was preferred to S1 in 14 of 18 votes (p = 0.031).")
    for won, lost, p in ((13, 5, "0.096"), (2, 1, "1.0"), (9, 9, "1.0")):
        said = voted(votes(0, 1, won, lost)).verdict("votes")
        assert said.startswith(
            f"No clear preference: S0 was preferred to S1 in {won} of {won + lost}"
        )
        assert f"(p = {p})" in said
    # The first in the order is compared with one that it met.
    both = voted(votes(0, 2, 9, 0), votes(1, 2, 3, 2))
    assert both.verdict("votes").startswith("S0 was preferred to S2 in 9 of 9 votes")
    assert voted(votes(0, 1, 0, 0, even=3)).verdict("votes").startswith("Two settings")


@pytest.mark.parametrize(
    "wrong",
    [
        "x",
        [1],
        [{"prompt": 9, "pair": [0, 1], "preferred": 0}],
        [{"prompt": 0, "pair": [0, 0], "preferred": 0}],
        [{"prompt": 0, "pair": [0, 1], "preferred": 2}],
        [{"prompt": True, "pair": [0, 1], "preferred": 0}],
    ],
)
def test_a_vote_that_is_none_is_refused_in_one_sentence(wrong):
    with pytest.raises(EngineError, match="votes = ") as refused:
        read_votes(wrong, voted().plan)
    assert str(refused.value).count(". ") == 0


def test_each_measure_has_a_sentence():
    assert all(one.label and one.leads for one in MEASURES.values())
