"""A saved run is drawn again by a process that has neither torch nor transformers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from engine import STRATEGIES, trace_json
from tests.helpers.strategies import trace_of
from visualizers import VISUALS

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
for name in ("torch", "transformers", "gradio"):
    sys.modules[name] = None
from engine import trace_json
from visualizers import VISUALS
import dataclasses
found = {}
for line in sys.stdin:
    path, *names = line.split()
    trace = trace_json.load(path)
    found[path] = {name: VISUALS[name].view(trace) for name in names}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Return {strategy: (trace, views of the other process)}."""
    folder, traces = tmp_path_factory.mktemp("traces"), {}
    for name in STRATEGIES:
        traces[name] = trace_of(name)
        trace_json.save(traces[name], folder / f"{name}.json.gz")
    lines = [f"{folder / name}.json.gz {' '.join(STRATEGIES[name].visuals)}" for name in traces]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    views = json.loads(done.stdout)
    return {name: (traces[name], views[f"{folder / name}.json.gz"]) for name in traces}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_visual_is_the_live_one(drawn, name):
    trace, views = drawn[name]
    assert set(views) == set(STRATEGIES[name].visuals)
    for visual, view in views.items():
        assert view == json.loads(json.dumps(VISUALS[visual].view(trace))), visual
        assert view["columns"]
