"""A process that has neither torch nor transformers nor gradio reads a saved run and draws its numbers."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from engine import STRATEGIES
from engine.trace import json_io
from engine.trace.details import DraftDetail
from tests.helpers.patience import PATIENCE_S
from tests.helpers.strategies import trace_of

ROOT = Path(__file__).parents[2]
SCRIPT = """
import json, sys
for name in ("torch", "transformers", "gradio"):
    sys.modules[name] = None
from engine.trace import json_io
from visualizers import VISUALS
found = {}
for line in sys.stdin:
    path, *names = line.split()
    trace = json_io.load(path)
    found[path] = {name: VISUALS[name].view(trace) for name in names}
print(json.dumps(found))
"""


def details(trace, name):
    """Yield (step, each member of a list of its detail)."""
    return ((step, item) for step in trace.steps for item in getattr(step.detail, name))


def candidates(trace):
    for step in trace.steps:
        for c in step.candidates:
            p, processed = math.exp(c.raw_logprob), math.exp(c.processed_logprob)
            emitted = c.token_id == step.emit[-1]
            yield step.index, trace.pieces[c.token_id], p, processed, c.removed_by or "", emitted


def stages(trace):
    for step in trace.steps:
        for stage in step.stages:
            yield step.index, stage.name, stage.kept, stage.kept_mass, stage.entropy
        if not step.stages:
            yield step.index, "none", trace.model.vocab_size, 1.0, step.entropy


def racers(trace):
    for step in trace.steps:
        detail = getattr(step.detail, "draw", step.detail)
        for place, r in enumerate(detail.racers):
            yield step.index, place, trace.pieces[r.token_id], r.probability, r.noise, r.arrival


def bits(trace):
    for step in trace.steps:
        own = next(c for c in step.candidates if c.token_id == step.emit[-1])
        yield step.index, -own.raw_logprob / math.log(2), step.entropy / math.log(2)


def nodes(trace):
    for step, n in details(trace, "pool"):
        piece, p = trace.pieces[n.token_id], math.exp(n.logprob)
        numbers = (p, n.logprob, n.sum_logprobs, n.score, n.rank, n.margin)
        about = (n.group, n.diversity_penalty, n.fate, n.reason)
        yield step.index, n.node_id, n.parent_id, piece, *numbers, *about


def hypotheses(trace):
    """Every path that ended, or was among the best when the search did, best first."""
    best = [h.node_id for h in trace.steps[-1].detail.heap]
    ended = [
        (n.node_id, n.sum_logprobs, step.index + 1, n.score)
        for step, n in details(trace, "pool")
        if n.fate in ("finished", "finished_worse") or n.node_id in best
    ]
    return sorted(ended, key=lambda row: -row[3])


def drafted(trace):
    for step in trace.steps:
        assert isinstance(step.detail, DraftDetail)
        for place, t in enumerate(step.detail.tokens, start=1):
            yield step.index + 1, place, trace.pieces[t.token_id], t.p, t.q, t.u, t.status
        if step.detail.final_source != "ended":
            last = trace.pieces[step.emit[-1]]
            yield step.index + 1, None, last, None, None, None, step.detail.final_source


# visual -> (columns, the same values taken from the trace)
EXPECTED = {
    "candidates": (["step", "token", "p raw", "p processed", "removed by", "emitted"], candidates),
    "xray": (["step", "processor", "kept", "kept mass", "entropy"], stages),
    "draw": (["step", "place", "token", "probability", "noise", "arrival"], racers),
    "chart": (["step", "surprise, bits", "entropy, bits"], bits),
    "beam_tree": (
        [
            *("step", "node", "parent", "token", "p", "log p", "sum", "score", "rank", "margin"),
            *("group", "diversity penalty", "fate", "reason"),
        ],
        nodes,
    ),
    "beam_rescore": (["node", "sum", "length", "score"], hypotheses),
    "contrastive": (
        ["step", "p", "confidence", "penalty", "score", "position"],
        lambda trace: (
            (s.index, o.probability, o.confidence, o.degeneration_penalty, o.score, o.position)
            for s, o in details(trace, "options")
        ),
    ),
    "layer_heatmap": (
        ["step", "layer", "divergence", "entropy", "rank, normed", "logprob, normed"],
        lambda trace: (
            (s.index, r.layer, r.divergence, r.entropy, r.normed_rank, r.normed_logprob)
            for s, r in details(trace, "layers")
        ),
    ),
    "draft_timeline": (["round", "place", "token", "p", "q", "u", "status"], drafted),
    "watermark": (
        ["step", "token", "green fraction", "bias", "counted", "fresh"],
        lambda trace: (
            (s.index, trace.pieces[s.emit[0]], d.green_fraction, d.bias, d.scored, d.fresh)
            for s, d in ((step, step.detail) for step in trace.steps)
        ),
    ),
}


def near(value):
    """Tables round to four places or more."""
    return pytest.approx(value, rel=1e-6, abs=1e-4) if isinstance(value, float) else value


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Return {strategy: (trace, views of the other process)}."""
    folder, traces = tmp_path_factory.mktemp("traces"), {}
    for name in STRATEGIES:
        traces[name] = trace_of(name)
        json_io.save(traces[name], folder / f"{name}.json.gz")
    lines = [f"{folder / name}.json.gz {' '.join(STRATEGIES[name].visuals)}" for name in traces]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    views = json.loads(done.stdout)
    return {name: (traces[name], views[f"{folder / name}.json.gz"]) for name in traces}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_process_without_torch_draws_the_numbers_of_a_saved_run(drawn, name):
    trace, views = drawn[name]
    assert list(views) == list(STRATEGIES[name].visuals)
    for visual, view in views.items():
        columns, values = EXPECTED[visual]
        expected = [tuple(map(near, row)) for row in values(trace)]
        places = [view["columns"].index(column) for column in columns]
        found = [tuple(row[place] for place in places) for row in view["rows"]]
        assert len(found) == len(expected) > 0, visual
        for own, other in zip(found, expected, strict=True):
            assert own == other, visual
