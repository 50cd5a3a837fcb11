"""What the types of a record say about its numbers is what runs, files and the schema go by."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from engine import STRATEGIES
from engine.errors import TraceError
from engine.loops.host_transfer import start_packed_copy, start_transfer
from engine.run.recording import collect_token_ids
from engine.trace import json_io
from engine.trace.details import DETAIL_TYPES, DistributionCheck, DraftReport, Parting
from engine.trace.schema import trace_schema
from engine.trace.value_types import LOGPROB, PROBABILITY, SECONDS, TOKEN_ID, iter_values
from tests.helpers.strategies import recorded, trace_of

PARTING = Parting(0, 11, 12, 0.5, 0.6, 0.1, near_tie=False)
CHECK = DistributionCheck(1, 10, 0.1, 1, 0.7, bins=(((13,), 6, 5.5), ((), 4, 4.5)))
REPORT = DraftReport(3, PARTING, 0.2, 0, 0.1, None, distributions=(CHECK,))


def names_in(definition):
    """Yield the fields of a JSON schema's definition that may be null without being a union."""
    for name, kind in definition["properties"].items():
        if kind.get("type") == ["number", "null"]:
            yield name


def test_values_are_found_however_deep_they_are():
    assert list(iter_values(REPORT, TOKEN_ID)) == [
        ("emitted_id", 11),
        ("expected_id", 12),
        ("bins", 13),
    ]
    assert dict(iter_values(REPORT, SECONDS)) == {"check_s": 0.2, "plain_s": 0.1}
    assert list(iter_values(REPORT, PROBABILITY)) == [("p_value", 0.7)]
    assert list(iter_values(None, TOKEN_ID)) == []


@pytest.mark.by_day("greedy", "sampling", "watermark")
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_token_that_a_step_names_has_a_piece(name):
    trace = recorded(name)
    named = {token_id for step in trace.steps for _, token_id in iter_values(step, TOKEN_ID)}
    assert named
    assert named <= set(trace.pieces)


@pytest.mark.parametrize("cls", DETAIL_TYPES.values(), ids=DETAIL_TYPES)
def test_no_detail_has_a_number_of_ids_that_its_type_is_silent_about(cls):
    for field in dataclasses.fields(cls):
        if field.name.endswith(("token_id", "token_ids")):
            assert "TokenId" in str(field.type), field.name


def test_null_means_an_impossible_token_and_nothing_else():
    nullable = {name for d in trace_schema()["$defs"].values() for name in names_in(d)}
    assert nullable == {"raw_logprob", "processed_logprob", "logprob", "normed_logprob"}
    trace = trace_of("sampling")
    data = json_io.trace_to_dict(trace)
    data["steps"][0]["candidates"][-1]["processed_logprob"] = None
    read = json_io.trace_from_dict(data).steps[0].candidates[-1]
    assert list(iter_values(read, LOGPROB))[1] == ("processed_logprob", -math.inf)
    data["steps"][0]["entropy"] = None
    with pytest.raises(TraceError, match="Step 0 lacks its entropy or logsumexp"):
        json_io.trace_from_dict(data)


@pytest.mark.parametrize("strategy", ["sampling", "beam_search", "speculative", "watermark"])
def test_a_step_names_what_its_fields_of_that_meaning_hold(strategy):
    for step in trace_of(strategy).steps:
        assert collect_token_ids(step) == {token_id for _, token_id in iter_values(step, TOKEN_ID)}


def test_numbers_are_the_same_after_one_copy_of_all_of_them():
    columns = {
        "ids": torch.tensor([[2**24 + 1, 3], [2**31 - 1, 0]]),
        "gone": torch.tensor([[True], [False]]),
        "logprobs": torch.tensor([[-0.1, -torch.inf], [1e-38, -87.5]]),
    }
    for name, values in start_packed_copy(columns)().items():
        assert values.tolist() == columns[name].tolist()


def test_columns_come_back_under_their_names():
    columns = {
        "one": torch.tensor([1, 2]),
        "none": torch.zeros(2, 0),
        "square": torch.arange(8).reshape(2, 2, 2),
    }
    assert start_transfer(columns)() == [
        {"one": (1.0,), "none": (), "square": (0.0, 1.0, 2.0, 3.0)},
        {"one": (2.0,), "none": (), "square": (4.0, 5.0, 6.0, 7.0)},
    ]
