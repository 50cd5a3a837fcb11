"""The numbers of the forward timeline are those of the passes that the trace recorded."""

from __future__ import annotations

import dataclasses

import pytest

from engine.errors import TraceError
from engine.trace import json_io
from engine.trace.checks import check_trace
from tests.helpers.forwards import PASS_S, beside, elsewhere, plain, rolled_back
from tests.helpers.strategies import trace_of
from visualizers import list_visuals
from visualizers.forward_timeline.summary import ForwardSummary


def shown(trace):
    passes = ForwardSummary(trace)
    return [passes.add(step) for step in trace.steps]


@pytest.mark.parametrize("made", [rolled_back, beside, elsewhere])
def test_a_run_made_by_hand_is_one_that_can_be_drawn(made):
    trace = made()
    check_trace(trace)
    pictures = list_visuals(trace)
    assert "forward_timeline" in pictures
    # What a method decided by is not known.
    assert not {"formula", "draw"} & {*pictures}
    assert "forward_timeline" not in list_visuals(trace_of("greedy"))


def test_every_pass_has_a_row_with_what_was_taken_back_after_it():
    rows = [row for values in shown(rolled_back()) for row in values["rows"]]
    assert [row["number"] for row in rows] == [1, 2, 3, 4, 5, 6, 7, 8]
    # Once between two passes, once with the next token in the same decision.
    assert [row["gone"] for row in rows] == [[], [], [], [4, 5], [], [], [8], []]
    assert [row["took_s"] for row in rows] == pytest.approx([PASS_S] * 8)


def test_the_text_that_a_step_leaves_is_the_one_of_its_replay():
    trace = rolled_back()
    passes, text = ForwardSummary(trace), []
    for step in trace.steps:
        values = passes.add(step)
        gone = [token for row in values["rows"] for token in row["gone"]]
        assert gone == text[step.keep :]
        text[step.keep :] = step.emit
        assert values["written"] == values["figures"]["tokens"] == len(text)


def test_the_figures_add_up():
    figures = shown(rolled_back())[-1]["figures"]
    assert figures == {
        "passes": 8,
        "aside": 0,
        "without_ids": 0,
        "read": 11,
        "rows": 1,
        "held": 6,
        "back": 3,
        "rollbacks": 2,
        "declared": 9,
        "steps": 7,
        "blind": 1,
        "tokens": 5,
        "left": 0,
        "tokens_per_pass": 5 / 8,
    }


def test_what_a_step_takes_back_counts_once_a_pass_misses_it():
    values = shown(rolled_back())
    told = [(v["figures"]["back"], v["figures"]["rollbacks"], v["figures"]["left"]) for v in values]
    assert told[2:] == [(0, 0, 0), (2, 1, 0), (2, 1, 0), (2, 1, 1), (3, 2, 0)]


def test_what_is_read_next_to_the_text_is_no_part_of_it():
    values = shown(beside())
    assert [v["start"] for v in values] == [None, 3, 3, 3]
    assert [v["most"] for v in values] == [None, 5, 6, 6]
    assert values[0]["rows"] == [{"number": None, "took_s": None, "gone": []}]
    figures = values[-1]["figures"]
    assert (figures["aside"], figures["without_ids"], figures["rows"]) == (1, 1, 2)
    assert figures["read"] == 4 + 2 * 2 + 1 + 0 + 1
    assert (figures["back"], figures["left"], values[-1]["rows"][-1]["gone"]) == (0, 2, [4, 5])


def test_a_run_without_a_pass_has_no_tokens_per_pass():
    [values] = shown(elsewhere())
    assert values["figures"]["tokens_per_pass"] is None
    assert (values["figures"]["passes"], values["start"], values["most"]) == (0, None, None)


def test_a_record_without_times_shows_none():
    trace = plain(3)
    for step in trace.steps:
        passes = tuple(dataclasses.replace(p, elapsed_s=0.0) for p in step.detail.passes)
        bare = dataclasses.replace(step, detail=dataclasses.replace(step.detail, passes=passes))
        [row] = ForwardSummary(trace).add(bare)["rows"]
        assert row["took_s"] is None


def test_steps_of_another_kind_have_nothing_here():
    trace = trace_of("greedy")
    assert shown(trace) == [None] * len(trace.steps)


@pytest.mark.by_day("beside")
@pytest.mark.parametrize("made", [rolled_back, beside])
def test_passes_with_any_one_value_changed_are_refused_or_drawn(made):
    drawn = refused = 0
    for step, place, name, value in changes(made()):
        data = json_io.trace_to_dict(made())
        data["steps"][step]["detail"]["passes"][place][name] = value
        try:
            trace = json_io.trace_from_dict(data)
        except TraceError:
            refused += 1
            continue
        drawn += 1
        passes, text = ForwardSummary(trace), []
        for one in trace.steps:
            gone = [token for row in passes.add(one)["rows"] for token in row["gone"]]
            assert gone == text[one.keep :], (step, place, name, value)
            text[one.keep :] = one.emit
    assert min(drawn, refused) > 20


def changes(trace):
    """Yield step, pass, field and another value for every number of every pass."""
    for step in trace.steps:
        for place, seen in enumerate(step.detail.passes):
            for name, value in dataclasses.asdict(seen).items():
                others = (not value,) if name == "aside" else (0, value + 1, value + 2, 10**6)
                yield from ((step.index, place, name, other) for other in others)
