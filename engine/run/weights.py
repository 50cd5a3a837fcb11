"""Weights settings (precision, placement) of a request or a recorded run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from engine.declare.params import Param
from engine.declare.weights import ASSISTANT_PREFIX, WeightsParams, parse_weights, weights_params
from engine.errors import ParameterError
from engine.models import weights as holding
from engine.models.devices import default_device
from engine.strategies.base import Strategy
from engine.trace.records import Trace

if TYPE_CHECKING:
    from engine.models.loading import LoadedModel
    from engine.run.request import DecodeRequest

RequestedModel: TypeAlias = "str | LoadedModel | None"
"""A name, a model in memory, or None for the default of the strategy."""


def weights_from_trace(trace: Trace) -> dict[str, Any]:
    """Return the request fields that load a recorded run's weights the same way on this machine."""
    return holding.to_weights_request(trace, default_device())


def list_weight_params(assistant: bool) -> dict[str, Param]:
    """Return the weights parameters that this deployment offers.

    Args:
        assistant: also return those of the draft model.
    """
    return holding.filter_offered_params(weights_params(assistant), default_device)


def read_single_weights(weights: object, owner: str) -> WeightsParams:
    """Return the settings of a single model, without a draft model.

    Args:
        weights: see ``DecodeRequest``.
        owner: name for error messages.

    Raises:
        ParameterError: an unknown setting, or one not offered here.
    """
    own, _ = parse_weights(weights, owner, assistant=False)
    holding.check_weights_allowed(own, default_device())
    return own


def drop_loaded_weights(
    weights: Mapping[str, object], model: RequestedModel, assistant: RequestedModel
) -> dict[str, Any]:
    """Return the settings without those of models given as LoadedModel objects.

    Args:
        weights: see ``DecodeRequest``.
        model: the model field of a request.
        assistant: its draft model field.
    """
    loaded = {"": is_loaded(model), ASSISTANT_PREFIX: is_loaded(assistant)}
    return {
        name: value
        for name, value in weights.items()
        if not loaded[ASSISTANT_PREFIX if name.startswith(ASSISTANT_PREFIX) else ""]
    }


def is_loaded(model: RequestedModel) -> TypeGuard[LoadedModel]:
    """Return whether a request contains a model object instead of a name."""
    return model is not None and not isinstance(model, str)


def read_request_weights(
    strategy: Strategy, request: DecodeRequest
) -> tuple[WeightsParams, WeightsParams]:
    """Return the settings of a request's model and of its draft model.

    Raises:
        ParameterError: an unknown setting, one not offered here, or one for a LoadedModel.
    """
    if not request.weights:
        return holding.DEFAULT, holding.DEFAULT
    drafted = strategy.assistant != "none"
    found = parse_weights(request.weights, strategy.name, drafted)
    models = (("", request.model), (ASSISTANT_PREFIX, request.assistant))
    for weights, (prefix, model) in zip(found, models, strict=True):
        own = weights.changed_values(prefix)
        # Loaded already: settings cannot change it any more, so they are refused and not ignored.
        if own and is_loaded(model):
            name = next(iter(own))
            raise ParameterError(name, own[name], "the model is given as it was loaded")
        holding.check_weights_allowed(weights, default_device(), prefix)
    return found
