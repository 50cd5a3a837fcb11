"""How the models of a request are held: what it says, and what a recorded run says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.declare.params import Param
from engine.declare.weights import ASSISTANT, WeightsParams, read_weights, weights_params
from engine.errors import ParameterError
from engine.models import weights as holding
from engine.models.devices import default_device
from engine.strategies.base import Strategy
from engine.trace.records import Trace


def recorded_weights(trace: Trace) -> dict[str, Any]:
    """Return what a request says so that the weights of a recorded run are held alike on this machine."""
    return holding.asked_for(trace, default_device())


def offered_weights(assistant: bool) -> dict[str, Param]:
    """Return the parameters by which this deployment lets anybody say how weights are held.

    Args:
        assistant: whether those of the draft model are wanted, too.
    """
    return holding.offered(weights_params(assistant), default_device)


def held_alone(weights: Any, owner: str) -> WeightsParams:
    """Return how one model is held that reads and does not write.

    Args:
        weights: see ``DecodeRequest``, without a draft model's.
        owner: who reads, for messages.

    Raises:
        ParameterError: a way that is not there or not offered here.
    """
    own, _ = read_weights(weights, owner, assistant=False)
    holding.check_allowed(own, default_device())
    return own


def weights_beside(weights: Mapping[str, Any], model: Any, assistant: Any) -> dict[str, Any]:
    """Return how weights are held without what is about a model that is given loaded.

    Args:
        weights: see ``DecodeRequest``.
        model: as a request names it.
        assistant: likewise.
    """
    loaded = {"": is_loaded(model), ASSISTANT: is_loaded(assistant)}
    return {
        name: value
        for name, value in weights.items()
        if not loaded[ASSISTANT if name.startswith(ASSISTANT) else ""]
    }


def is_loaded(model: Any) -> bool:
    """Return whether a request brings a model along, instead of naming one."""
    return model is not None and not isinstance(model, str)


def held(strategy: Strategy, request: Any) -> tuple[WeightsParams, WeightsParams]:
    """Return how a request's model and its draft model are held.

    Raises:
        ParameterError: a way that is not there or not offered here, or one for a model that is given loaded.
    """
    if not request.weights:
        return holding.DEFAULT, holding.DEFAULT
    drafted = strategy.assistant != "none"
    found = read_weights(request.weights, strategy.name, drafted)
    models = (("", request.model), (ASSISTANT, request.assistant))
    for weights, (prefix, model) in zip(found, models, strict=True):
        said = weights.said(prefix)
        if said and is_loaded(model):
            name = next(iter(said))
            raise ParameterError(name, said[name], "the model is given as it was loaded")
        holding.check_allowed(weights, default_device(), prefix)
    return found
