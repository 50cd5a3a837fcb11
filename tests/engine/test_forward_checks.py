"""Passes of a run that was seen from outside: what cannot be is refused with its step and its number."""

from __future__ import annotations

import pytest

from engine.errors import TraceError
from engine.trace import json_io
from tests.helpers.bad_traces import put
from tests.helpers.forwards import beside, elsewhere, plain, rolled_back


def passes(step, place, name, value):
    return put("steps", step, "detail", "passes", place, name, value)


LONGER = {"rows": 1, "read": 5, "cached": 4, "dropped": 0, "length": 9, "elapsed_s": 0.75}


def without_a_pass(data):
    del data["steps"][3]["detail"]["passes"][0]


BAD = [
    (passes(1, 0, "rows", -1), "Step 1 has a pass with rows = -1"),
    (passes(1, 0, "read", -1), "Step 1 has a pass with read = -1"),
    (passes(1, 0, "cached", -3), "Step 1 has a pass with cached = -3"),
    (passes(3, 1, "dropped", -2), "Step 3 has a pass with dropped = -2"),
    (passes(1, 0, "length", -4), "Step 1 has a pass with length = -4"),
    (passes(1, 0, "elapsed_s", -0.5), "Step 1 has a negative time"),
    (passes(1, 0, "elapsed_s", 0.1), "Step 1 has a pass that ended before the one before it"),
    (passes(1, 0, "length", None), "length must be a whole number"),
    (passes(1, 0, "aside", 1), "aside must be true or false"),
    (put("steps", 1, "detail", "declared", -1), "Step 1 has declared -1 tokens"),
    (put("steps", 1, "forward_passes", 7), "Step 1 has 1 passes and counts 7"),
    (without_a_pass, "Step 3 has 1 passes and counts 2"),
    (passes(0, 0, "dropped", 1), "Step 0 begins without 1 tokens of its text"),
    (passes(6, 0, "dropped", 0), "Step 6 begins without 0 tokens of its text, and the step before"),
    (passes(3, 1, "dropped", 4), "Step 3 has a pass without 4 of 3 tokens"),
    (passes(3, 1, "dropped", 1), "Step 3 has a pass with length = 4, and its text has 5 tokens"),
    (passes(2, 0, "length", 9), "Step 2 has a pass of 9 tokens that read 1 after 4 in the cache"),
    (put("steps", 2, "detail", "passes", 0, LONGER), "length = 9, and its text has 5 tokens"),
    (passes(3, 1, "aside", True), "Step 3 has a pass aside that takes back 2 tokens"),
    (passes(2, 0, "read", 6), "Step 2 has a pass of 5 tokens that read 6 after 4 in the cache"),
    (passes(2, 0, "cached", 3), "Step 2 has a pass of 5 tokens that read 1 after 3 in the cache"),
    (put("steps", 3, "keep", 2), "Step 3 keeps 2 tokens of 1 after its last pass"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_passes_that_cannot_be_are_refused(number):
    change, said = BAD[number]
    data = json_io.trace_to_dict(rolled_back())
    change(data)
    if number == len(BAD) - 1:
        # One token more stands from there on, and the whole text says so.
        data["outputs"] = []
    with pytest.raises(TraceError) as caught:
        json_io.trace_from_dict(data)
    assert said in str(caught.value)


@pytest.mark.parametrize("made", [rolled_back, beside, elsewhere, lambda: plain(30)])
def test_what_was_seen_is_read_again(made):
    trace = made()
    assert json_io.loads(json_io.dumps(trace)) == trace


def test_passes_before_which_something_else_decided_are_taken_as_they_are():
    data = json_io.trace_to_dict(rolled_back())
    data["steps"][5]["detail"] = None
    json_io.trace_from_dict(data)
