"""The custom generation method of a request: found, trusted, with validated arguments."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.declare.params import params_of
from engine.declare.weights import TORCH
from engine.errors import ModelError, ParameterError, suggest_name
from engine.messages import Message
from engine.models.loading import LoadedModel
from engine.sandbox.arguments import check_arguments, standard_argument_names
from engine.sandbox.method_lookup import SHIPPED, FoundMethod, find_method, is_local_method
from engine.sandbox.trust import check_trusted
from engine.strategies.custom import STRATEGY, CustomConfig
from engine.trace.records import MethodInfo

_OWN_PARAMETERS = frozenset(params_of(CustomConfig))
Function = Callable[..., Any]


@dataclass(frozen=True)
class RequestedMethod:
    """The method that decodes a run.

    Attributes:
        name: as requested.
        found: the method's code; None for a function, and until it is on this machine.
        function: a Python function given instead of a name.
    """

    name: str
    found: FoundMethod | None = None
    function: Function | None = None

    @property
    def is_available(self) -> bool:
        """Whether its code is on this machine."""
        return self.found is not None or self.function is not None

    def info(self) -> MethodInfo:
        """Return its description for the trace."""
        if self.found is None:
            return MethodInfo(self.name, "function")
        found = self.found
        return MethodInfo(self.name, found.source, found.method.sha256, found.revision)


def parse_method_request(values: Mapping[str, object]) -> tuple[dict[str, Any], RequestedMethod]:
    """Return a request's values with unknown names moved to the method's arguments, and the method.

    Downloads nothing: the arguments of a hub method that is not local are left unchecked.

    Args:
        values: raw values by name; names that the strategy lacks belong to the method.

    Raises:
        MethodError: there is no such method, or it must not run.
        ParameterError: an unknown argument, or one of the wrong type.
    """
    kind = params_of(CustomConfig)["method"]
    named = kind.check("method", values.get("method", CustomConfig.method))
    arguments = (
        params_of(CustomConfig)["arguments"].check("arguments", values.get("arguments")) or {}
    )
    # generate() takes a method's arguments next to its own, so a request may, too.
    arguments |= {name: value for name, value in values.items() if name not in _OWN_PARAMETERS}
    rest = {name: value for name, value in values.items() if name in _OWN_PARAMETERS}
    if callable(named):
        function = RequestedMethod(getattr(named, "__name__", "function"), function=named)
        return {**rest, "arguments": _check_function_arguments(named, arguments) or None}, function
    if not is_local_method(named):
        return {**rest, "arguments": arguments or None}, RequestedMethod(named)
    method = RequestedMethod(named, find_method(named))
    return {**rest, "arguments": _check_arguments(method, arguments) or None}, method


def fetch_method(
    method: RequestedMethod, config: CustomConfig, cancelled: threading.Event | None = None
) -> tuple[RequestedMethod, Any]:
    """Return a runnable method, downloaded if needed, and the config with validated arguments.

    Raises:
        Cancelled: the run was cancelled meanwhile.
        MethodError: it cannot be found or must not run.
        ParameterError: an unknown argument, or one of the wrong type.
    """
    if method.is_available:
        return method, config
    method = RequestedMethod(method.name, find_method(method.name, cancelled))
    return method, replace(
        config, arguments=_check_arguments(method, config.arguments or {}) or None
    )


def check_model_compatible(method: RequestedMethod, target: LoadedModel) -> None:
    """Refuse a model that a shipped method cannot use; other methods can only fail when they run.

    Raises:
        ModelError: one sentence.
    """
    if hasattr(target.model, "graphs"):
        raise ModelError(
            "{name} cannot be used with {method}: a custom method needs backend = {backend}.",
            name=target.name,
            method=method.name,
            backend=TORCH,
        )
    if method.found is None or method.found.source != SHIPPED:
        return
    can = target.capabilities
    reason = (
        "it needs a decoder-only model"
        if can.is_encoder_decoder
        else "it needs a cache that can go back"
        if not can.can_crop
        else None
    )
    if reason:
        raise ModelError(
            "{name} cannot be used with {method}: {reason}.",
            name=target.name,
            method=method.name,
            reason=reason,
        )


def _check_arguments(method: RequestedMethod, arguments: Mapping[str, object]) -> dict[str, Any]:
    assert method.found is not None
    check_trusted(method.found)
    own = method.found.method
    # A method with **kwargs takes generate()'s arguments too, except those the strategy passes.
    also = standard_argument_names() - _OWN_PARAMETERS if own.takes_all else frozenset()
    known = also | {argument.name for argument in own.arguments}
    for name, value in arguments.items():
        hint = None if name in known else suggest_name(name, _OWN_PARAMETERS)
        if hint:
            raise ParameterError(name, value, "the method does not have it", hint)
    return check_arguments(own.arguments, arguments, also)


def _check_function_arguments(function: Function, arguments: dict[str, Any]) -> dict[str, Any]:
    try:
        # Some builtin functions have no signature.
        names = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return arguments
    unknown = next((name for name in arguments if name not in names), None)
    if unknown is not None:
        raise ParameterError(
            unknown,
            arguments[unknown],
            Message("{strategy}'s function does not take it", strategy=STRATEGY.name),
        )
    return arguments
