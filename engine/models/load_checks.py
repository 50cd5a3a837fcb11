"""Checks of a loaded model, and one-sentence errors for models that failed to load."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from engine.declare.weights import WeightsParams
from engine.errors import ModelError
from engine.models import weights as holding
from engine.models.files import find_odd_generation_field
from engine.models.model_types import LoadingReport, Model, Tokenizer

_MAX_SHOWN = 200


def load_error(error: Exception, name: str, folder: str, weights: WeightsParams) -> ModelError:
    """Turn an error that transformers raised while loading a model into a ModelError."""
    if isinstance(error, ModelError):
        return error
    if isinstance(error, MemoryError):
        return ModelError("{name} needs more memory than there is here.", name=name)
    placed = holding.offload_error_reason(error, weights)
    if placed is not None:
        return ModelError("{name} could not be loaded: {why}.", name=name, why=placed)
    odd = find_odd_generation_field(folder)
    if odd is not None:
        return odd
    if type(error).__name__ == "SafetensorError":
        return ModelError(
            "{name} has a damaged weights file: {why}", name=name, why=_first_line(error, folder)
        )
    return ModelError(
        "{name} could not be loaded: {why}", name=name, why=_first_line(error, folder)
    )


def check_loaded_model(
    name: str, model: Model, report: LoadingReport, tokenizer: Tokenizer | None
) -> None:
    """Check a loaded model: transformers silently fills missing weights with random numbers.

    Args:
        name: the model's name.
        model: the loaded model.
        report: loading info returned by ``from_pretrained``.
        tokenizer: its tokenizer, or None.

    Raises:
        ModelError: weights are missing, or the tokenizer does not fit.
    """
    for weight, stored, wanted in sorted(report.get("mismatched_keys", ())):
        raise ModelError(
            "{name} does not fit its config.json: {weight} has the shape {stored}, and {wanted} is "
            "described.",
            name=name,
            weight=weight,
            stored=_format_shape(stored),
            wanted=_format_shape(wanted),
        )
    missing = list(report.get("missing_keys", ()))
    if missing:
        raise ModelError(
            "{name} lacks the weights {missing}.", name=name, missing=repr(str(missing[0])[:60])
        )
    waits = "disk" in (getattr(model, "hf_device_map", None) or {}).values()
    # Concurrent loads can leave parameters on the meta device or torch's default dtype changed.
    lost = not waits and any(p.is_meta for p in model.parameters())
    if lost or torch.get_default_dtype() != torch.float32:
        raise ModelError("{name} was not loaded whole; try again.", name=name)
    check_tokenizer(name, model, tokenizer)


def check_tokenizer(name: str, model: Model, tokenizer: Tokenizer | None) -> None:
    """Raise ModelError if the tokenizer has more tokens than the model's embedding."""
    rows = model.get_input_embeddings().weight.shape[0]
    if tokenizer is not None and len(tokenizer) > rows:
        raise ModelError(
            "{name}: its tokenizer has {n} entries, its model {rows}.",
            name=name,
            n=len(tokenizer),
            rows=rows,
        )


def _format_shape(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape))


def _first_line(error: Exception, folder: str) -> str:
    text = str(error).strip() or type(error).__name__
    line = text.splitlines()[0].replace(str(folder), "its folder").rstrip(" .!")
    return (line if len(line) <= _MAX_SHOWN else line[: _MAX_SHOWN - 1] + "…") + "."
