"""Trace files: the schema is current, bad files are refused with the place, size is bounded."""

from __future__ import annotations

import copy
import gzip
import json
import tracemalloc
from pathlib import Path

import jsonschema
import pytest

from engine import DecodeRequest
from engine.errors import TraceError
from engine.trace import checks, json_io
from engine.trace.schema import trace_schema
from tests.helpers.models import golden_model
from tests.helpers.runs import finished
from tests.helpers.sentences import clean

SCHEMA_FILE = Path(__file__).parents[2] / "docs" / "trace.schema.json"


@pytest.fixture(scope="module")
def trace():
    request = DecodeRequest(
        "sampling", golden_model("llama"), input_ids=[5, 9], params={"max_new_tokens": 6}
    )
    return finished(request)


@pytest.fixture
def data(trace):
    return copy.deepcopy(json_io.trace_to_dict(trace))


def test_the_schema_in_docs_is_current_and_accepts_a_trace(data):
    assert json.loads(SCHEMA_FILE.read_text()) == json.loads(json.dumps(trace_schema()))
    jsonschema.validate(data, trace_schema())
    del data["steps"][0]["keep"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, trace_schema())


def _set(path, value):
    def change(data):
        *parents, last = path
        for key in parents:
            data = data[key]
        data[last] = value

    return change


CHANGES = [
    (_set(["schema"], "decoding-trace/3"), "decoding-trace/1"),
    (_set(["schema"], None), "schema none"),
    (_set(["extra"], 1), "unknown field 'extra'"),
    (_set(["__proto__"], {}), "unknown field"),
    (lambda d: d.pop("steps"), "lacks the field 'steps'"),
    (_set(["steps"], {}), "trace.steps must be a list"),
    (_set(["seed"], "7"), "trace.seed must be a whole number"),
    (_set(["seed"], True), "trace.seed must be a whole number"),
    (_set(["steps", 2, "index"], 1), "Step 2 carries the index 1"),
    (_set(["steps", 3, "keep"], 9), "Step 3 keeps 9 tokens of 3"),
    (_set(["steps", 3, "keep"], -1), "Step 3 keeps -1"),
    (_set(["steps", 1, "emit"], [96]), "outputs[0] is not what its steps replay to"),
    (_set(["steps", 1, "emit"], [5000]), "token id 5000 has no entry"),
    (_set(["steps", 1, "entropy"], None), "Step 1 lacks its entropy or logsumexp"),
    (_set(["steps", 1, "entropy"], -3.0), "negative entropy"),
    (_set(["steps", 1, "elapsed_s"], -3.0), "negative"),
    (_set(["steps", 1, "candidates", 0, "raw_logprob"], 2.0), "probability above 1"),
    (_set(["steps", 1, "candidates", 0, "raw_logprob"], "x"), "raw_logprob must be a number"),
    (_set(["steps", 1, "candidates", 0, "token_id"], 1.5), "token_id must be a whole number"),
    (_set(["steps", 1, "candidates", 3], 5), "must be an object"),
    (_set(["steps", 1, "stages", 0, "kept_mass"], 3.0), "impossible numbers"),
    (_set(["steps", 1, "detail", "kind"], "evil"), "unknown kind 'evil'"),
    (_set(["outputs", 0, "finish_reason"], "bored"), "finish_reason must be one of"),
    (_set(["outputs", 0, "token_ids"], [5]), "outputs[0] is not what"),
    (_set(["pieces"], {"x": "a"}), "no token id"),
    (_set(["pieces"], []), "trace.pieces must be an object"),
    (_set(["model"], None), "trace.model must be an object"),
    (_set(["prompt_ids"], [4999]), "prompt_ids: token id 4999"),
]


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_changed_trace_is_refused_with_its_place(data, number):
    change, said = CHANGES[number]
    change(data)
    with pytest.raises(TraceError) as caught:
        json_io.loads(json.dumps(data))
    assert said in clean(str(caught.value))


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "empty"),
        (b"  ", "empty"),
        (b"[]", "JSON object"),
        (b"null", "JSON object"),
        (b"{", "not valid JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": 1e999}', "not finite"),
        (b'{"a": 1, "a": 2}', "occurs twice"),
        (b"[" * 100_000, "nests deeper"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too many digits"),
        (b"\xff\xfe", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not valid JSON"),
        (b"\x1f\x8bxx", "not valid gzip"),
        (gzip.compress(b" " * 40_000_000), "larger than"),
        (b'{"a": Infinity}', "Infinity"),
    ],
    ids=range(15),
)
def test_files_that_are_no_trace(raw, said):
    with pytest.raises(TraceError, match=said):
        json_io.loads(raw)


def test_no_more_is_unpacked_than_may_be_read():
    bomb = gzip.compress(b" " * 50_000_000)
    tracemalloc.start()
    with pytest.raises(TraceError, match="larger than 1000 bytes"):
        checks.read_json_strict(bomb, 1000)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 5_000_000


def test_html_in_pieces_is_only_text(data):
    key = next(iter(data["pieces"]))
    data["pieces"][key] = "<img src=x onerror=alert(1)>"
    assert json_io.loads(json.dumps(data)).pieces[int(key)].startswith("<img")


def test_files_round_trip_and_a_long_trace_is_small(tmp_path, trace):
    for name in ("t.json", "t.json.gz"):
        json_io.save(trace, tmp_path / name)
        assert json_io.load(tmp_path / name) == trace
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.json", "t.json.gz"]
    request = DecodeRequest(
        "sampling",
        golden_model("llama"),
        input_ids=[5, 9],
        params={"max_new_tokens": 200, "min_new_tokens": 200, "top_p": 0.9, "min_p": 0.01},
    )
    long = finished(request)
    assert len(long.steps) == 200
    assert len(gzip.compress(json_io.dumps(long).encode())) < 1_000_000
    with pytest.raises(TraceError, match="cannot be read"):
        json_io.load(tmp_path / "none.json")
    with pytest.raises(TraceError, match="could not be written"):
        json_io.save(trace, tmp_path / "no" / "t.json")
