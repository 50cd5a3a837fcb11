"""The layer map and its tables carry what the trace recorded."""

from __future__ import annotations

import math

import pytest

from engine import DecodeRequest
from engine.trace.details import LayerDetail
from tests.helpers.models import golden_model
from tests.helpers.runs import reread
from visualizers.layer_heatmap import summary as layer_heatmap

LAYERS = 6


@pytest.fixture(scope="module")
def trace():
    params = {"max_new_tokens": 10, "dola_layers": "low"}
    request = DecodeRequest("dola", golden_model("llama"), input_ids=[1, 5, 6, 7, 8], params=params)
    return reread(request)


def test_one_row_per_layer_and_step_with_its_role(trace):
    view = layer_heatmap.view(trace)
    rows = [dict(zip(view["columns"], row, strict=True)) for row in view["rows"]]
    assert len(rows) == (LAYERS + 1) * len(trace.steps)
    for step in trace.steps:
        own = [row for row in rows if row["step"] == step.index]
        roles = {row["layer"]: row["role"] for row in own}
        assert roles.pop(step.detail.premature_layer) == "contrasted"
        assert roles.pop(LAYERS) == "final"
        assert all((role == "candidate") == (layer in (0, 2)) for layer, role in roles.items())
        assert own[-1]["divergence"] is None
        assert own[-1]["top tokens"] == own[-1]["top tokens, normed"]


@pytest.mark.parametrize("value", layer_heatmap.VALUES)
@pytest.mark.parametrize("projection", layer_heatmap.PROJECTIONS)
def test_every_value_and_projection_can_be_drawn(trace, value, projection):
    heat, line = layer_heatmap.figure(trace, value, projection)["data"]
    assert len(heat["z"]) == LAYERS + 1
    name = value if projection == "raw" else f"normed_{value}"
    for layer, row in enumerate(heat["z"]):
        for step, z in zip(trace.steps, row, strict=True):
            number = getattr(step.detail.layers[layer], name)
            if number is None:
                assert z is None
            elif value == "rank":
                assert z == pytest.approx(math.log10(number + 1), abs=1e-4)
            elif value == "logprob":
                assert z == max(-20, number)
            else:
                assert z == number
    assert len(line["x"]) == len(line["y"]) == 6 * len(trace.steps)


def test_the_outline_goes_around_the_contrasted_cell(trace):
    xs, ys = layer_heatmap.outline(trace.details(LayerDetail))
    for i, step in enumerate(trace.steps):
        corners = list(zip(xs[6 * i : 6 * i + 5], ys[6 * i : 6 * i + 5], strict=True))
        assert corners[0] == corners[4]
        assert sum(x for x, _ in corners[:4]) / 4 == step.index
        assert sum(y for _, y in corners[:4]) / 4 == step.detail.premature_layer
        assert xs[6 * i + 5] is None


def test_the_contrast_table_puts_before_beside_after(trace):
    contrast = layer_heatmap.view(trace)["contrast"]
    rows = [dict(zip(contrast["columns"], row, strict=True)) for row in contrast["rows"]]
    for step in trace.steps:
        own = [row for row in rows if row["step"] == step.index]
        assert len([row for row in own if row["after"] is not None]) == min(8, step.detail.kept)
        assert own[0]["after"] == trace.pieces[step.emit[0]]
        assert own[0]["tokens kept"] == step.stages[0].kept
