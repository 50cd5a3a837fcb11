"""The seeds of a comparison: what its field reads, and what it refuses in one sentence."""

from __future__ import annotations

import json
from urllib.parse import urlencode

import pytest

from engine.errors import ParameterError
from engine.run.request import MAX_SEED
from playground.forms import links
from playground.forms.seeds import format_seeds, read_seeds


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        (0, (0,)),
        (7.0, (7,)),
        ("0", (0,)),
        (str(MAX_SEED), (MAX_SEED,)),
        ("0, 1, 2", (0, 1, 2)),
        (" 4,2 , 4", (4, 2)),
        ("0-4", (0, 1, 2, 3, 4)),
        ("3–5", (3, 4, 5)),
        ("9, 1 - 2", (9, 1, 2)),
    ],
)
def test_what_a_field_of_seeds_reads(given, seeds):
    assert read_seeds(given) == seeds
    assert read_seeds(format_seeds(seeds)) == seeds


@pytest.mark.parametrize(
    "given",
    [
        *("", ",", "0-5", "0-9999999999999999999", "4-2", "1;2", "-1", "1.5", "²", "0" * 500),
        *("0, 1, 2, 3, 4, 5", str(MAX_SEED + 1), MAX_SEED + 1, -1, None, True, [1]),
    ],
)
def test_other_seeds_are_refused_with_their_range(given):
    with pytest.raises(ParameterError) as caught:
        read_seeds(given)
    assert caught.value.parameter == "seed"
    assert f"1 to 5 whole numbers from 0 to {MAX_SEED}" in str(caught.value)


def test_a_link_of_a_comparison_keeps_its_seeds():
    column = {"strategy": "greedy", "params": {}}
    for seed, shown in ((3, "3"), ("0, 7", "0, 7"), ("1-3", "1, 2, 3")):
        form = {"prompt": "The cat", "seed": seed, "columns": [column, column]}
        link = "?" + urlencode({"tab": "compare", "form": json.dumps(form)})
        assert links.open_link(link)["form"]["seed"] == shown
