"""What pictures show of a run comes with its steps, the same live and of a recording, and is JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest

from engine.strategies import STRATEGIES
from playground.tabs.replay import trace_with_visuals
from tests.helpers.jobs import read_run
from tests.helpers.strategies import make, recorded, trace_of
from visualizers import COMMON_VISUALS, VISUALS, start_summaries, strategy_visuals

FOLDED = frozenset(name for name, visual in VISUALS.items() if visual.fold is not None)


@pytest.mark.by_day("greedy", "sampling", "beam_sampling")
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_step_comes_with_what_its_pictures_show(name):
    messages = [json.loads(text) for text in read_run(make(name))]
    deltas = [message for message in messages if message["kind"] == "delta"]
    shown = [values for delta in deltas for values in delta["shown"]]
    steps = [step for delta in deltas for step in delta["steps"]]
    assert len(shown) == len(steps) > 0
    assert {frozenset(values) for values in shown} == {
        FOLDED & {*COMMON_VISUALS, *strategy_visuals(name, STRATEGIES[name].visuals)}
    }


@pytest.mark.by_day("greedy", "beam_search", "prompt_lookup")
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_recording_shows_what_the_run_showed(name):
    trace = recorded(name)
    header = dataclasses.replace(trace, steps=(), outputs=(), metrics={})
    live = start_summaries(header, strategy_visuals(name, STRATEGIES[name].visuals))
    shown = json.loads(json.dumps([live.add(step) for step in trace.steps], allow_nan=False))
    assert json.loads(json.dumps(trace_with_visuals(trace)["shown"])) == shown


def test_a_picture_nobody_knows_has_no_numbers():
    trace = trace_of("greedy")
    assert set(start_summaries(trace, ["no such picture"]).add(trace.steps[0])) == set(
        COMMON_VISUALS
    )
