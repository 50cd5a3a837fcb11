"""A file has the records of its steps in columns: every number is there, and it is small."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path

import jsonschema
import pytest

from engine import DecodeRequest
from engine.analysis import gallery
from engine.errors import TraceError
from engine.strategies import STRATEGIES
from engine.trace import json_io
from engine.trace.records import COLUMNS_SCHEMA, SCHEMA
from engine.trace.schema import trace_schema
from tests.helpers.recordings import FIRST
from tests.helpers.runs import finished
from tests.helpers.sentences import clean
from tests.helpers.strategies import OURS

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "trace.columns.schema.json"
MOST = 300_000
"""Bytes of 200 steps with 20 candidates each."""


@pytest.fixture(scope="module")
def recorded():
    return {name: gallery.open_entry(entry.file) for name, entry in FIRST.items()}


@pytest.fixture
def data(recorded):
    return copy.deepcopy(json.loads(json_io.dumps(recorded["sampling"])))


@pytest.mark.nightly
def test_both_forms_say_the_same(recorded):
    assert set(recorded) == set(STRATEGIES)
    for trace in recorded.values():
        rows = json.dumps(json_io.trace_to_dict(trace))
        columns = json_io.dumps(trace)
        assert json.loads(rows)["schema"] == SCHEMA
        assert json.loads(columns)["schema"] == COLUMNS_SCHEMA
        assert json_io.loads(rows) == json_io.loads(columns) == trace
        assert len(columns) < len(rows)


def test_the_schema_in_docs_is_current_and_accepts_every_kind_of_step(recorded, data):
    described = trace_schema(columns=True)
    assert json.loads(SCHEMA_FILE.read_text()) == json.loads(json.dumps(described))
    # One validator: each new one validates the schema itself as well.
    validator = jsonschema.validators.validator_for(described)(described)
    for trace in recorded.values():
        validator.validate(json.loads(json_io.dumps(trace)))
    del data["steps"][0]["candidates"]["rank"]
    with pytest.raises(jsonschema.ValidationError):
        validator.validate(data)


def _shorter(data):
    data["steps"][1]["candidates"]["rank"].pop()


def _no_list(data):
    data["steps"][1]["candidates"]["rank"] = 7


def _unknown(data):
    data["steps"][1]["candidates"]["html"] = ["x" for _ in data["steps"][1]["candidates"]["rank"]]


def _lacking(data):
    del data["steps"][1]["candidates"]["rank"]


def _in_rows_by_name(data):
    data["schema"] = SCHEMA


def _steps_in_columns(data):
    data["steps"] = {"index": [0]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_shorter, "trace.steps[1].candidates has columns of different lengths"),
        (_no_list, "trace.steps[1].candidates has columns of different lengths"),
        (_unknown, "trace.steps[1].candidates[0] has an unknown field 'html'"),
        (_lacking, "trace.steps[1].candidates[0] lacks the field 'rank'"),
        (_in_rows_by_name, "candidates must be a list"),
        (_steps_in_columns, "trace.steps must be a list"),
    ],
)
def test_bad_columns_are_refused_with_their_place(data, change, said):
    change(data)
    with pytest.raises(TraceError) as caught:
        json_io.loads(json.dumps(data))
    assert said in clean(str(caught.value))


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["dola", *(n for n in OURS if n != "dola")])
def test_two_hundred_steps_are_small(name, tmp_path):
    params = {"max_new_tokens": 200, "min_new_tokens": 200}
    trace = finished(DecodeRequest(name, prompt="My name is", params=params))
    assert len(trace.outputs[0].token_ids) == 200
    assert len(gzip.compress(json_io.dumps(trace).encode(), 6)) <= MOST
    json_io.save(trace, tmp_path / "run.json.gz")
    assert (tmp_path / "run.json.gz").stat().st_size <= MOST
    assert json_io.load(tmp_path / "run.json.gz") == trace
