"""The weights of a recorded run in words: precision, backend and placement."""

from __future__ import annotations

from engine.messages import Message, join_messages
from engine.trace.records import ModelInfo


def describe_weights(info: ModelInfo) -> str:
    """Return a short description of a model's weights: their bits, and the layers per device."""
    weights = info.weights
    if weights is None:
        return info.dtype
    backend = "" if weights.backend == "torch" else weights.backend
    bits = ", ".join(filter(None, (backend, weights.quantization, info.dtype)))
    if len(weights.layers_on) < 2:
        return bits
    places = join_messages(
        (
            Message("{count} on {place}", count=count, place=place)
            for place, count in weights.layers_on.items()
        ),
        ", ",
    )
    return Message("{bits}; layers: {places}", bits=bits, places=places)
