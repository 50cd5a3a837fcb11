"""Models converted in this process, without a folder of the cache."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from engine.models.openvino.graphs import GRAPH_FILE, ModelGraphs
from engine.models.openvino.model import to_graph_model
from engine.models.openvino.tracer import trace_to_graph


def on_openvino(model: Any, folder: Path) -> Any:
    """Return a model on graphs, which are written to a folder."""
    import openvino

    openvino.save_model(trace_to_graph(model), folder / GRAPH_FILE, compress_to_fp16=False)
    with torch.device("meta"):
        empty = type(model)(copy.deepcopy(model.config))
    return to_graph_model(empty, ModelGraphs(folder))
