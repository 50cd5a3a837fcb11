"""The picture of a dial map: its cells merge equal beginnings, and its figures are those of a run."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise

from engine.analysis import gallery
from engine.statistics.metrics import compute_metrics
from engine.trace.dial_map_json import load_dial_map
from visualizers.dial_map.summary import dial_map_view
from visualizers.page import page

FOUND = load_dial_map(gallery.dial_map_path("sampling-1", "temperature").read_bytes())
VIEW = dial_map_view(FOUND)


def test_the_words_under_a_line_are_the_text_of_its_interval():
    assert len(FOUND.intervals) > 10
    for n, one in enumerate(FOUND.intervals):
        words = [word for _, first, last, word, _ in VIEW["cells"] if first <= n <= last]
        assert "".join(words) == one.text
        rows = [row for row, first, last, *_ in VIEW["cells"] if first <= n <= last]
        assert rows == list(range(len(rows)))


def test_equal_beginnings_share_a_cell_and_different_ones_do_not():
    first = [cell for cell in VIEW["cells"] if cell[0] == 0]
    beginnings = [one.token_ids[0] for one in FOUND.intervals]
    changes = sum(a != b for a, b in pairwise(beginnings))
    # The first row may also change where the first word has several tokens.
    assert changes + 1 <= len(first) < len(FOUND.intervals)
    last_row = VIEW["rows"] - 1
    for row, a, b, *_ in VIEW["cells"]:
        inside = {one.token_ids[: row + 1] for one in FOUND.intervals[a : b + 1]}
        assert len(inside) == 1, (row, a, b)
    assert any(cell[0] == last_row for cell in VIEW["cells"])


def test_a_cell_has_the_least_likely_rank_of_its_tokens():
    one = FOUND.intervals[0]
    ranks = [rank for _, first, _, _, rank in VIEW["cells"] if first == 0]
    assert set(ranks) <= set(one.ranks)
    assert max(ranks) == max(one.ranks)


def test_the_figures_at_a_runs_own_value_are_its_metrics():
    trace = gallery.open_entry(gallery.find_entry("sampling-1").file)
    metrics = compute_metrics(trace)
    n = FOUND.intervals.index(FOUND.interval_at(trace.config["temperature"]))
    own = VIEW["figures"][n]
    assert own["tokens"] == len(trace.outputs[0].token_ids)
    assert own["rep_3"] == metrics["rep_3"]
    assert own["distinct_2"] == metrics["distinct_2"]
    assert abs(own["perplexity"] - metrics["perplexity"]) < 1e-4 * metrics["perplexity"]


def test_between_two_stops_an_edge_is_in_the_middle():
    a, b = (replace(FOUND.intervals[0], low=x, high=x) for x in (0.5, 0.7))
    view = dial_map_view(replace(FOUND, low=0.5, high=0.7, stops=(0.5, 0.7), intervals=(a, b)))
    assert view["edges"] == [0.5, 0.6, 0.7]


def test_the_end_of_a_text_is_a_cell_without_a_word():
    one = FOUND.intervals[0]
    ended = replace(one, end="eos")
    view = dial_map_view(replace(FOUND, intervals=(ended,)))
    assert view["cells"][-1][3] == ""


def test_a_page_shows_the_maps_that_it_is_given():
    trace = gallery.open_entry(gallery.find_entry("sampling-1").file)
    html = page(trace, dial_maps=[FOUND]).html
    [data] = re.findall(r'"about":(\{.*\})\}', html)
    [maps] = json.loads(data).values()
    assert maps["temperature"]["view"] == json.loads(json.dumps(VIEW))
    assert '"dial_map"' in html
    assert '"visuals":["about"' in page(trace).html
    assert '"dial_map"' not in page(trace).html.rpartition('"visuals"')[2]
