"""The custom generation method of a request: found, trusted, and its arguments held to what it says of them."""

from __future__ import annotations

import difflib
import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from engine.declare.params import params_of
from engine.declare.weights import TORCH
from engine.errors import ModelError, ParameterError
from engine.methods.arguments import base_names, checked_arguments
from engine.methods.finding import SHIPPED, Found, find_method, is_here
from engine.methods.trust import check_trusted
from engine.models.loading import LoadedModel
from engine.strategies.custom import STRATEGY, CustomConfig
from engine.trace.records import MethodInfo

_OURS = frozenset(params_of(CustomConfig))
Function = Callable[..., Any]


@dataclass(frozen=True)
class AskedMethod:
    """What decides a run.

    Attributes:
        name: as the request names it.
        found: what was found by the name; None while it is not on this machine, and for a function.
        function: given in place of a name.
    """

    name: str
    found: Found | None = None
    function: Function | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it can be run."""
        return self.found is not None or self.function is not None

    def info(self) -> MethodInfo:
        """Return what a trace says of it."""
        if self.found is None:
            return MethodInfo(self.name, "function")
        found = self.found
        return MethodInfo(self.name, found.source, found.method.sha256, found.revision)


def asked_method(values: Mapping[str, Any]) -> tuple[dict[str, Any], AskedMethod]:
    """Return a request's values with those of the method among its arguments, and the method.

    A method of the hub that is not on this machine is not fetched here; its arguments are taken as they are.

    Args:
        values: raw values by name; a name that the strategy does not know is one of the method's.

    Raises:
        MethodError: there is no such method, or it may not run.
        ParameterError: an argument that it does not have, or of another kind.
    """
    kind = params_of(CustomConfig)["method"]
    named = kind.check("method", values.get("method", CustomConfig.method))
    given = params_of(CustomConfig)["arguments"].check("arguments", values.get("arguments")) or {}
    given |= {name: value for name, value in values.items() if name not in _OURS}
    rest = {name: value for name, value in values.items() if name in _OURS}
    if callable(named):
        function = AskedMethod(getattr(named, "__name__", "function"), function=named)
        return {**rest, "arguments": _of_function(named, given) or None}, function
    if not is_here(named):
        return {**rest, "arguments": given or None}, AskedMethod(named)
    method = AskedMethod(named, find_method(named))
    return {**rest, "arguments": _checked(method, given) or None}, method


def settled(
    method: AskedMethod, config: Any, cancelled: threading.Event | None = None
) -> tuple[AskedMethod, Any]:
    """Return a method that is on this machine and may run, fetched where it has to be, and the config that fits it.

    Raises:
        Cancelled: it was cancelled meanwhile.
        MethodError: it cannot be found or may not run.
        ParameterError: an argument that it does not have, or of another kind.
    """
    if method.is_settled:
        return method, config
    method = AskedMethod(method.name, find_method(method.name, cancelled))
    return method, replace(config, arguments=_checked(method, config.arguments or {}) or None)


def check_serves(method: AskedMethod, target: LoadedModel) -> None:
    """Refuse a model that a method which comes along cannot serve; of others nobody knows before they run.

    Raises:
        ModelError: one sentence.
    """
    if hasattr(target.model, "graphs"):
        raise ModelError(
            f"{target.name} cannot be used with {method.name}: a custom method needs backend = {TORCH}."
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
        raise ModelError(f"{target.name} cannot be used with {method.name}: {reason}.")


def _checked(method: AskedMethod, given: dict[str, Any]) -> dict[str, Any]:
    assert method.found is not None
    check_trusted(method.found)
    own = method.found.method
    # Whoever takes everything takes what generate() takes, too; what the strategy has, it is handed anyway.
    also = base_names() - _OURS if own.takes_all else frozenset()
    known = also | {argument.name for argument in own.arguments}
    for name, value in given.items():
        near = difflib.get_close_matches(name[:64], _OURS, n=1)
        if name not in known and near:
            raise ParameterError(
                name, value, "the method does not have it", f"did you mean {near[0]}"
            )
    return checked_arguments(own.arguments, given, also)


def _of_function(function: Function, given: dict[str, Any]) -> dict[str, Any]:
    try:
        names = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return given
    unknown = next((name for name in given if name not in names), None)
    if unknown is not None:
        raise ParameterError(
            unknown, given[unknown], f"{STRATEGY.name}'s function does not take it"
        )
    return given
