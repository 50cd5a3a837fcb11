"""Load a converted model: compile its graph and build the object that decodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import transformers

from engine.declare.weights import EIGHT_BITS
from engine.errors import ModelError
from engine.models.load_checks import check_tokenizer
from engine.models.model_views import special_ids_config
from engine.models.openvino import model as on_openvino
from engine.models.openvino.graph_store import find_graph, read_measurements
from engine.models.openvino.graphs import ModelGraphs
from engine.models.tokenizers import load_tokenizer
from engine.trace.records import Agreement

_GENERATION_CONFIG = "generation_config.json"


def load_graph_model(name: str, folder: str, backend: str, described: Any) -> tuple[Any, Any]:
    """Return a converted model with its compiled graph, and its tokenizer.

    Args:
        name: the model's name.
        folder: the model's folder.
        backend: openvino or openvino-int8.
        described: the model on torch's meta device; changed in place.

    Raises:
        ModelError: its graph is missing or damaged, or its tokenizer does not fit.
    """
    graph = find_graph(folder, backend)
    if graph is None:
        raise ModelError(
            "The graph of {name} for {backend} is gone; try again.", name=name, backend=backend
        )
    if (Path(folder) / _GENERATION_CONFIG).is_file():
        # A model built from its configuration alone has not read this file.
        described.generation_config = transformers.GenerationConfig.from_pretrained(folder)
    model = on_openvino.to_graph_model(described, ModelGraphs(graph))
    try:
        model.agreement = (
            _read_agreement(read_measurements(graph)) if backend == EIGHT_BITS else None
        )
        # Compiles the graph now, so that a damaged file is found here and not in the first pass.
        assert model.graphs.whole
        tokenizer = load_tokenizer(folder)
    except ModelError:
        raise
    except Exception as error:  # damaged files raise many error types
        kind = type(error).__name__
        raise ModelError(
            "{name} could not be opened for {backend} ({kind}).",
            name=name,
            backend=backend,
            kind=kind,
        ) from None
    check_tokenizer(name, model, tokenizer)
    model.generation_config = special_ids_config(model)
    return model, tokenizer


def _read_agreement(found: Mapping[str, Any]) -> Agreement:
    return Agreement(**{field.name: found[field.name] for field in fields(Agreement)})
