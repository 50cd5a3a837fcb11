"""A map of two dials: each row is the map of one dial, each cell the text of a real run, and it gives way."""

from __future__ import annotations

import itertools
import json
import random
import threading
from pathlib import Path

import jsonschema
import pytest

from engine import DecodeRequest, map_dial, map_two_dials
from engine.analysis.dial_map.dials import EDGE_WIDTH
from engine.analysis.dial_map.grid import map_two_sliders
from engine.cli.main import main
from engine.errors import EngineError, TraceError
from engine.run.scheduler import RUN_QUEUE
from engine.trace import json_io
from engine.trace.dial_grid_json import dial_grid_schema, dump_dial_grid, load_dial_grid
from tests.helpers.models import golden_model
from tests.helpers.real import real_model
from tests.helpers.runs import finished, finished_together

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "dial_grid.schema.json"
PROMPT = "One day, a little boy found a"
IDS = [1, 5, 6, 7, 8, 9]
# First dial with its range, second dial with its values, other settings.
CASES = (
    ("temperature", 0.1, 3.0, "top_p", [0.3, 0.8, 1.0], {"repetition_penalty": 1.2}),
    ("top_p", 0.05, 0.99, "temperature", [0.5, 1.0, 2.0], {"min_p": 0.01}),
    ("temperature", 0.2, 2.0, "top_k", [1, 5, 40], {"top_n_sigma": 2.5}),
    ("top_k", 1, 60, "min_p", [0.0, 0.05, 0.2], {"temperature": 1.5}),
)


def request(tokens=8, seed=3, model=None, **params):
    """Return a request of a tiny model, or of a named one."""
    own = {"model": golden_model("llama"), "input_ids": IDS}
    given = own if model is None else {"model": model, "prompt": PROMPT}
    params = {"top_k": 0, "max_new_tokens": tokens, **params}
    return DecodeRequest("sampling", params=params, seed=seed, top_candidates=1, **given)


def last_map(asked, *args, **more):
    *_, found = map_two_dials(asked, *args, **more)
    return found


def differing_runs(found, drawn, runs, **given):
    """Return the places at which a real run differs from the map, outside the width of the edges."""
    wrong, places = [], []
    for _ in range(runs):
        row = drawn.randrange(len(found.values))
        value = drawn.choice(found.stops) if found.stops else drawn.uniform(found.low, found.high)
        places.append((row, value))
    traces = finished_together(
        [
            request(**{**given, found.dial: value, found.second: found.values[row]})
            for row, value in places
        ]
    )
    for (row, value), trace in zip(places, traces, strict=True):
        second = found.values[row]
        edges = [cell.low for cell in found.cells if cell.row == row][1:]
        text = found.text_at(value, second)
        written = trace.outputs[0].token_ids
        if text.end in ("cut", "not_followed"):
            written = written[: len(text.token_ids)]
        near = not found.stops and any(abs(value - edge) <= EDGE_WIDTH * edge for edge in edges)
        if written != text.token_ids and not near:
            wrong.append((found.dial, value, found.second, second, given))
    return wrong


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("dial", "low", "high", "second", "values", "params"), CASES)
def test_each_row_is_the_map_of_one_dial_and_each_cell_a_real_run(
    dial, low, high, second, values, params
):
    found = last_map(request(**params), dial, low, high, second, values)
    assert found.complete
    assert len(found.texts) > len(values)
    for row, value in enumerate(values):
        *_, alone = map_dial(request(**{**params, second: value}), dial, low, high)
        own = [cell for cell in found.cells if cell.row == row and cell.sure]
        sure = [one for one in alone.intervals if one.sure]
        assert [found.texts[cell.text].token_ids for cell in own] == [one.token_ids for one in sure]
        # The two batch their passes differently, which moves an edge by far less than its width.
        assert [cell.low for cell in own] == pytest.approx([one.low for one in sure], rel=1e-4)
    assert differing_runs(found, random.Random(1), 4, **params) == []


def test_equal_texts_are_one_text_and_share_passes():
    values = [0.2, 0.5, 0.8, 0.9, 1.0]
    found = last_map(request(), "temperature", 0.1, 3.0, "top_p", values)
    keys = [(one.token_ids, one.end) for one in found.texts]
    assert len(set(keys)) == len(keys) < len(found.cells)
    *_, alone = map_dial(request(top_p=1.0), "temperature", 0.1, 3.0)
    assert found.forward_rows < len(values) * alone.forward_rows


def test_the_default_values_are_those_of_the_slider_and_the_runs_own():
    found = next(map_two_sliders(request(tokens=2, top_p=0.93), "temperature", "top_p"))
    assert len(found.values) == 21
    assert found.values[:2] == (0.05, 0.1)
    assert (found.low, found.high) == (0.1, 2.0)
    assert (found.value, found.second_value) == (1.0, 0.93)
    warm = next(map_two_sliders(request(tokens=2, temperature=2.5), "temperature", "top_p"))
    assert (warm.low, warm.high) == (0.1, 2.5)
    # Without the filter, a row at its neutral value is the run's own; top-k has no such value.
    assert next(map_two_sliders(request(tokens=2), "temperature", "top_p")).second_value == 1.0
    assert next(map_two_sliders(request(tokens=2), "temperature", "top_k")).second_value is None


@pytest.mark.nightly
def test_only_the_widest_cells_are_followed_and_a_long_text_is_cut():
    found = last_map(request(40), "temperature", 0.1, 3.0, "top_p", [0.5, 1.0], max_cells=6)
    assert found.steps == 24
    assert {one.end for one in found.texts} <= {"cut", "eos", "not_followed"}
    lost = [cell for cell in found.cells if found.texts[cell.text].end == "not_followed"]
    assert lost
    assert "first 24 tokens" in found.notes[-2]
    assert f"{len(lost)} narrow stretches" in found.notes[-1]
    for row in (0, 1):
        own = [cell for cell in found.cells if cell.row == row]
        ends = [found.texts[cell.text].end for cell in own]
        assert "cut" in ends
        assert own[0].low == pytest.approx(0.1)
        assert own[-1].high == pytest.approx(3.0)
        assert all(a.high < b.low for a, b in itertools.pairwise(own))


def test_it_grows_step_by_step_and_stops_within_one():
    cancelled = threading.Event()
    values = [0.5, 1.0]
    growing = map_two_dials(
        request(), "temperature", 0.1, 3.0, "top_p", values, cancelled=cancelled
    )
    assert [next(growing).steps, next(growing).steps] == [1, 2]
    cancelled.set()
    assert list(growing) == []
    assert len(RUN_QUEUE) == 0


@pytest.mark.parametrize(
    ("given", "args", "message"),
    [
        ({}, ("typical_p", 0.1, 0.9), "dial = 'typical_p'"),
        ({}, ("temperature", 0.1, 1.0, "seed"), "second = 'seed'"),
        ({}, ("temperature", 0.1, 1.0, "temperature"), "another dial than the first"),
        ({}, ("temperature", 0.1, 1.0, "top_p", [0.5]), "2 to 41 ascending values"),
        ({}, ("temperature", 0.1, 1.0, "top_p", [0.9, 0.5]), "2 to 41 ascending values"),
        ({}, ("temperature", 0.1, 1.0, "top_k", [0, 5]), "values at which the filter is on"),
        ({"epsilon_cutoff": 0.1}, ("temperature", 0.1, 1.0), "has a proven map"),
        ({"guidance_scale": 1.5}, ("temperature", 0.1, 1.0), "guidance_scale"),
    ],
)
def test_what_has_no_map_is_refused_in_one_sentence(given, args, message):
    with pytest.raises(EngineError, match=message) as refused:
        last_map(request(**given), *args)
    assert str(refused.value).count(". ") == 0


def test_its_json_is_described_and_read_again():
    found = last_map(request(3), "temperature", 0.5, 1.0, "top_p", [0.5, 1.0])
    schema = dial_grid_schema()
    assert json.loads(SCHEMA_FILE.read_text()) == json.loads(json.dumps(schema)), (
        "write it again: python -m engine schema --dial-grid > docs/dial_grid.schema.json"
    )
    data = json.loads(dump_dial_grid(found))
    jsonschema.validate(data, schema)
    assert load_dial_grid(json.dumps(data).encode()) == found
    for place, value in (("schema", "decoding-dial-map/1"), ("cells", []), ("texts", [])):
        with pytest.raises(TraceError):
            load_dial_grid(json.dumps({**data, place: value}).encode())


def test_the_command_prints_rows_and_texts_or_json(tmp_path, capsys):
    path = tmp_path / "run.json.gz"
    json_io.save(finished(request(4, model="storyteller", temperature=0.9, top_p=0.9)), path)
    common = ["dial", str(path), "--low", "0.1", "--high", "2", "--by", "top_p", "--values"]
    assert main([*common, "0.5", "0.9"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("temperature from 0.1 to 2 by top_p: ")
    assert [line.split(":")[0] for line in lines[1:3]] == ["top_p 0.5", "top_p 0.9"]
    assert lines[2].count(">") == 1
    assert lines[3].startswith("#1 ")
    assert main([*common, "0.5", "0.9", "--json"]) == 0
    jsonschema.validate(json.loads(capsys.readouterr().out), dial_grid_schema())
    assert main([*common, "0.5", "--stops", "0.5", "1"]) == 2
    assert "no stops" in capsys.readouterr().err


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(5))
def test_200_runs_of_the_storyteller_are_in_their_cells(seed):
    asked = request(16, seed, "storyteller")
    *_, found = map_two_sliders(asked, "temperature", "top_p")
    given = {"tokens": 16, "seed": seed, "model": "storyteller"}
    assert differing_runs(found, random.Random(seed), 40, **given) == []


@pytest.mark.nightly
@pytest.mark.real
def test_20_runs_of_a_real_model_are_in_their_cells():
    model = real_model()
    values = [0.6, 1.0]
    found = last_map(request(12, 1, model), "temperature", 0.1, 2.0, "top_p", values)
    given = {"tokens": 12, "seed": 1, "model": model}
    assert differing_runs(found, random.Random(1), 20, **given) == []
