"""The same checks over every registered strategy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from engine import decode
from engine.declare.params import (
    Choice,
    Flag,
    Integer,
    Number,
    build_config,
    defaults_of,
    params_of,
)
from engine.errors import ParameterError
from engine.strategies import STRATEGIES
from engine.trace import json_io
from engine.trace.records import replay_ids
from tests.helpers.gates import gate
from tests.helpers.patience import PATIENCE_S
from tests.helpers.runs import failed, finished, without_time
from tests.helpers.sentences import clean
from tests.helpers.strategies import OURS, make, recorded, trace_of
from visualizers import VISUALS, strategy_visuals, summarize_trace

NAMES = list(STRATEGIES)
VIEWS = Path(__file__).parents[1] / "visualizers" / "stage" / "view_index.mjs"


@pytest.mark.by_day("sampling", "beam_search", "speculative")
@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_trace_and_replay_gives_the_output(name):
    first, second = recorded(name), trace_of(name)
    assert without_time(first) == without_time(second)
    assert replay_ids(first.steps_of(0)) == list(first.outputs[0].token_ids)
    assert first.steps


@pytest.mark.by_day("sampling", "beam_search", "speculative")
@pytest.mark.parametrize("name", NAMES)
def test_json_round_trip_is_exact(name):
    trace = recorded(name)
    assert json_io.loads(json_io.dumps(trace)) == trace
    json.loads(json_io.dumps(trace), parse_constant=pytest.fail)


@pytest.mark.by_day("contrastive_search", "prompt_lookup", "mtp")
@pytest.mark.parametrize("name", OURS)
def test_early_close_ends_the_work_and_cleans_up(name):
    request = make(name, max_new_tokens=100)
    with gate(request.model.model, free=2) as held:
        run = decode(request)
        next(run)
        held.wait()
        run.close()
        held.open()
        assert run.join(PATIENCE_S)
    # An early exit drafts with the same model: the round at work is two passes.
    assert held.passes <= 4
    assert not request.model.lock.locked()
    assert finished(make(name)).steps


def _outside(kind):
    if isinstance(kind, (Number, Integer)):
        yield kind.minimum - 1
        yield kind.maximum + 1
        yield float("nan")
        yield float("inf")
        yield True
        yield "1"
    if isinstance(kind, Flag):
        yield from ("x", 1, 0)
    if isinstance(kind, Choice):
        yield "zzz"


@pytest.mark.parametrize("name", NAMES)
def test_config_bounds(name):
    config = STRATEGIES[name].config
    defaults = defaults_of(config)
    build_config(config, defaults, name)
    for parameter, kind in params_of(config).items():
        assert kind.label
        assert kind.help
        for value in _outside(kind):
            with pytest.raises(ParameterError) as caught:
                build_config(config, {parameter: value}, name)
            assert parameter in clean(str(caught.value))


@pytest.mark.parametrize("name", NAMES)
def test_unknown_parameter_names_the_nearest(name):
    assert "did you mean max_new_tokens" in str(failed(make(name, max_new_token=3)))


@pytest.mark.parametrize("name", NAMES)
def test_presets_are_legal_and_every_visual_draws_the_trace(name):
    strategy = STRATEGIES[name]
    for preset in strategy.presets:
        build_config(strategy.config, preset.params, name)
        assert preset.name
        assert preset.shows
    trace = recorded(name)
    visuals = strategy_visuals(name, strategy.visuals)
    for visual in visuals:
        assert re.search(rf"^  {visual}[:,]", VIEWS.read_text(), re.MULTILINE), visual
        assert any(VISUALS[visual].draws(step) for step in trace.steps), visual
    json.dumps(summarize_trace(trace, visuals), allow_nan=False)
