"""Exported code holds the weights as the run did, and prints its tokens."""

from __future__ import annotations

import dataclasses

import pytest

from engine import DecodeRequest
from engine.errors import ExportError
from engine.export.files import export_files
from engine.export.plan import plan_export
from engine.export.short_script import short_code
from engine.export.verify import compare_tokens, parse_printed_ids, verify_export
from engine.trace.records import HeldWeights
from tests.helpers.exported import run_scripts, written
from tests.helpers.runs import reread

PLACED = {"device_map": "auto", "max_memory": {"cpu": "20MB"}}


def recorded(weights, strategy="greedy"):
    params = {"max_new_tokens": 5}
    return reread(DecodeRequest(strategy, prompt="Once upon a", params=params, weights=weights))


HELD = {
    "greedy": {"dtype": "bfloat16"},
    "speculative": {**PLACED, "assistant_dtype": "float16"},
}


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Record the runs of HELD, and run all their scripts in one fresh process."""
    place = tmp_path_factory.mktemp("exports")
    traces = {strategy: recorded(weights, strategy) for strategy, weights in HELD.items()}
    scripts = {name: written(trace, place / name) for name, trace in traces.items()}
    said = run_scripts(list(scripts.values()), place, in_short=False)
    return {name: (trace, said[str(scripts[name])]) for name, trace in traces.items()}


@pytest.mark.parametrize("strategy", HELD)
def test_the_code_prints_the_tokens_of_the_run(printed, strategy):
    trace, said = printed[strategy]
    checked = compare_tokens(trace, parse_printed_ids(said), 0.0)
    assert checked.equal, said


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("strategy", "weights"),
    [
        *HELD.items(),
        ("contrastive_search", {"quantization": "8bit"}),
        ("early_exit", PLACED),
        ("greedy", {"quantization": "4bit"}),
    ],
)
def test_a_check_finds_the_tokens_of_the_run(strategy, weights):
    checked = verify_export(recorded(weights, strategy))
    assert checked.equal, checked.message


def test_the_code_says_how_weights_are_held():
    weights = {
        "quantization": "4bit",
        "bnb_4bit_quant_type": "fp4",
        "bnb_4bit_use_double_quant": True,
        "bnb_4bit_compute_dtype": "bfloat16",
        "assistant_dtype": "float16",
    }
    code = export_files(recorded(weights, "speculative"))["run.py"]
    packed = (
        'BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="fp4", '
        'bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype="bfloat16")'
    )
    assert f'model = load(MODEL, REVISION, dtype="float32", quantization_config={packed})' in code
    assert 'assistant = load(ASSISTANT, ASSISTANT_REVISION, dtype="float16")' in code
    lines = short_code(plan_export(recorded(PLACED)))
    assert "device_map=\"auto\", max_memory={'cpu': '20MB'})" in lines
    assert ".to(" not in lines


@pytest.mark.parametrize(
    "field",
    [
        {"device_map": 'auto"); print("'},
        {"quantization": 'x", y="'},
        {"bnb_4bit_compute_dtype": "float64", "quantization": "4bit"},
        {"max_memory": {"cpu'": "1MB"}, "device_map": "auto"},
    ],
    ids=str,
)
def test_a_record_that_holds_something_else_is_not_written_as_code(field):
    trace = recorded({})
    model = dataclasses.replace(trace.model, weights=HeldWeights(**field))
    with pytest.raises(ExportError, match="weights cannot be written as code"):
        export_files(dataclasses.replace(trace, model=model))
