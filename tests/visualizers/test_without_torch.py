"""A process that has neither torch nor transformers nor gradio reads a saved run and makes its numbers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine import STRATEGIES
from engine.trace import json_io
from tests.helpers.patience import PATIENCE_S
from tests.helpers.strategies import trace_of
from visualizers import COMMON_VISUALS, VISUALS, list_visuals, strategy_visuals, summarize_trace

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
for name in ("torch", "transformers", "gradio"):
    sys.modules[name] = None
from engine.trace import json_io
from visualizers import list_visuals, summarize_trace
found = {}
for path in sys.stdin.read().split():
    trace = json_io.load(path)
    found[path] = summarize_trace(trace, list_visuals(trace))
print(json.dumps(found, allow_nan=False))
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Return {strategy: (trace, what the other process made of it)}."""
    folder, traces = tmp_path_factory.mktemp("traces"), {}
    for name in STRATEGIES:
        traces[name] = trace_of(name)
        json_io.save(traces[name], folder / f"{name}.json.gz")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=" ".join(f"{folder / name}.json.gz" for name in traces),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return {name: (traces[name], found[f"{folder / name}.json.gz"]) for name in traces}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_process_without_torch_makes_the_numbers_of_a_saved_run(made, name):
    trace, shown = made[name]
    visuals = strategy_visuals(name, STRATEGIES[name].visuals)
    assert shown == json.loads(json.dumps(summarize_trace(trace, visuals)))
    folded = {picture for picture in visuals if VISUALS[picture].fold is not None}
    assert all(set(values) == folded | set(COMMON_VISUALS) for values in shown)


@pytest.mark.parametrize("name", STRATEGIES)
def test_the_pictures_of_a_record_are_those_of_its_strategy(made, name):
    assert set(list_visuals(made[name][0])) == set(strategy_visuals(name, STRATEGIES[name].visuals))
