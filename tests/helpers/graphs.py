"""Models converted in this process, without a folder of the cache."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from engine.models.openvino.graphs import GRAPH, Graphs
from engine.models.openvino.model import on_graphs
from engine.models.openvino.tracer import traced


def on_openvino(model: Any, folder: Path) -> Any:
    """Return a model on graphs, which are written to a folder."""
    import openvino

    openvino.save_model(traced(model), folder / GRAPH, compress_to_fp16=False)
    with torch.device("meta"):
        empty = type(model)(copy.deepcopy(model.config))
    return on_graphs(empty, Graphs(folder))
