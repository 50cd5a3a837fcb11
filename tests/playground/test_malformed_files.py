"""Malformed traces, opened where the browser opens them: one sentence each, and nothing is drawn."""

from __future__ import annotations

import dataclasses
import html
import json
import pickle
import random
import re
from functools import cache

import gradio as gr
import pytest

from engine.cli.main import main
from engine.errors import TraceError
from engine.strategies import STRATEGIES
from engine.trace import json_io
from playground.storage.uploads import UploadFolder
from playground.tabs import replay
from tests.helpers.bad_traces import CHANGES, OTHER_CHANGES, RAW
from tests.helpers.runs import finished
from tests.helpers.sentences import clean
from tests.helpers.strategies import make
from visualizers import summarize_trace

EXTRA = {
    "beam_search": {"num_beams": 3, "num_return_sequences": 2},
    "beam_sampling": {"num_beams": 3},
    "diverse_beam_search": {"num_beams": 4},
}
ALL = [("sampling", *row) for row in CHANGES] + OTHER_CHANGES
JUNK = (None, -1, 0, 2, 1.5, 10**6, 10**30, 1e300, "x", True, [], {}, [[0]], {"kind": "draw"})


@cache
def pickled(strategy):
    request = make(strategy, max_new_tokens=5, **EXTRA.get(strategy, {}))
    trace = finished(dataclasses.replace(request, top_candidates=6))
    return pickle.dumps(json_io.trace_to_dict(trace))


def recorded(strategy):
    """Return the JSON of a small run, a new copy at each call."""
    return pickle.loads(pickled(strategy))


@pytest.fixture
def refused(monkeypatch, tmp_path):
    """Return what opens a file and gives the sentence it is refused with."""

    def forbidden(*args):
        pytest.fail("a refused trace was sent to the player")

    monkeypatch.setattr(replay, "player_message", forbidden)

    def open_(data, name="trace.json"):
        path = tmp_path / name
        path.write_bytes(data)
        player, note = replay.open_file(path)
        assert player == gr.skip(), "the player must stay as it is"
        found = re.fullmatch(
            r"<p class='dp-status bad' role='alert'[^>]*>(.*)</p>", note, re.DOTALL
        )
        assert found
        said = clean(html.unescape(found[1]), most=400)
        assert str(tmp_path) not in said
        assert said.endswith(".")
        return said

    return open_


def test_there_are_more_than_a_hundred_of_them():
    assert len(ALL) + len(RAW) > 100


@pytest.mark.parametrize("number", range(len(ALL)), ids=lambda n: f"{n}-{ALL[n][0]}")
def test_a_changed_trace_never_reaches_the_player(refused, number):
    strategy, change, said = ALL[number]
    bad = recorded(strategy)
    change(bad)
    assert said in refused(json.dumps(bad).encode())


@pytest.mark.parametrize("number", range(len(RAW)))
def test_a_file_that_is_no_trace_never_reaches_the_player(refused, number, capsys, tmp_path):
    data, said = RAW[number]
    sentence = refused(data)
    assert said in sentence
    assert main(["replay", str(tmp_path / "trace.json")]) == 2
    assert capsys.readouterr().err == f"{sentence}\n"


def test_what_is_no_file_at_all(refused, tmp_path):
    assert replay.open_file(None) == (gr.skip(), "")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "none.json", tmp_path / "folder"):
        player, note = replay.open_file(path)
        assert player == gr.skip()
        assert "cannot be read" in note
        assert str(tmp_path) not in note


@pytest.mark.parametrize("good", [True, False])
def test_an_upload_is_gone_once_it_was_read(monkeypatch, tmp_path, good):
    monkeypatch.setattr(replay, "UPLOADS", UploadFolder(tmp_path, most_bytes=10**9, age_s=1e9))
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(recorded("sampling")) if good else "{")
    player, _ = replay.open_file(path)
    assert (player == gr.skip()) is not good
    assert not path.exists()


def test_markup_in_a_files_text_is_shown_as_text(refused):
    bad = {**recorded("sampling"), "<img src=x onerror=alert(1)>": 1}
    assert "<img" in refused(json.dumps(bad).encode())
    version = {**bad, "schema": "<script>alert(1)</script>"}
    assert "<script>" in refused(json.dumps(version).encode())


def places(value, path=()):
    """Yield the path to every value of a trace."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, (dict, list)):
            yield from places(inner, (*path, key))


@pytest.mark.by_day("sampling", "speculative", "diverse_beam_search")
@pytest.mark.parametrize("strategy", [*{row[0]: None for row in ALL}, "diverse_beam_search"])
def test_a_trace_with_any_one_value_changed_is_refused_or_drawn(strategy):
    """One value of each kind of place becomes junk: a sentence, or every visual still draws."""
    kinds = {}
    chance, outcomes = random.Random(7), set()
    for path in places(recorded(strategy)):
        kinds.setdefault(tuple("#" if isinstance(k, int) else k for k in path), []).append(path)
    for paths in kinds.values():
        for junk in chance.sample(JUNK, 2):
            *above, last = chance.choice(paths)
            place = bad = recorded(strategy)
            for key in above:
                place = place[key]
            place[last] = junk
            try:
                trace = json_io.trace_from_dict(bad)
            except TraceError:
                outcomes.add("refused")
                continue
            outcomes.add("drawn")
            json.dumps(summarize_trace(trace, STRATEGIES[strategy].visuals), allow_nan=False)
    assert outcomes == {"refused", "drawn"}
