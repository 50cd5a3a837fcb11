"""Conversion of the page's forms to requests; the engine validates the values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.declare.params import Param, defaults_of, params_of
from engine.declare.weights import (
    ASSISTANT_PREFIX,
    REQUIRED_SETTINGS,
    weights_defaults,
    weights_params,
)
from engine.errors import MethodError, ParameterError, format_value
from engine.live import check_values
from engine.messages import Message
from engine.run.request import DecodeRequest
from engine.sandbox.method_lookup import is_local_method
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy
from playground.forms import controls, speech, visitor_media


def form_request(payload: Mapping[str, Any]) -> DecodeRequest:
    """Convert a form to a request.

    Args:
        payload: ``strategy``, ``model``, ``assistant``, ``prompt`` or ``messages`` with ``template``,
            ``image``, ``audio``, ``speech``, ``seed`` and ``params``.

    Raises:
        ParameterError: a field cannot be read; values are not checked yet.
    """
    strategy, messages = read_strategy(payload), payload.get("messages")
    given = visitor_media.media_from_form(payload)
    return DecodeRequest(
        strategy.name,
        payload.get("model") or strategy.default_model,
        _prompt_or_none(payload.get("prompt"), given) if messages is None else None,
        params=form_params(strategy, payload.get("params") or {}),
        weights=form_weights(strategy, payload.get("params") or {}),
        seed=controls.to_int(payload.get("seed")),
        assistant=read_assistant(strategy, payload),
        messages=messages,
        template=None if messages is None else payload.get("template"),
        speech=speech.speech_from_form(payload),
        **given,
    )


def _prompt_or_none(prompt: Any, given: Mapping[str, Any]) -> Any:
    """Return the prompt; an empty one becomes None if there is an image or audio file."""
    return None if given and prompt == "" else prompt


def run_request(payload: Mapping[str, Any]) -> DecodeRequest:
    """Convert the form of a run to begin; see ``form_request``.

    Raises:
        MethodError: see ``check_method_is_local``.
        ParameterError: a field cannot be read, or the prompt is empty.
    """
    request = form_request(payload)
    # On the page, an empty prompt is a press too early. Programs may begin with nothing.
    if request.prompt == "":
        limit = SETTINGS.max_prompt_chars
        raise ParameterError("prompt", "", Message("write 1 to {limit} characters", limit=limit))
    return check_method_is_local(request)


def column_request(column: Any, shared: Mapping[str, Any]) -> DecodeRequest:
    """Convert one column of several, with the fields that all columns share, and check it.

    Raises:
        ParameterError: the column is no object, or one of its values is not valid.
    """
    if not isinstance(column, Mapping):
        raise ParameterError("columns", column, "each must be an object")
    request = run_request({**column, **shared})
    check_values(request)
    return request


def check_method_is_local(request: DecodeRequest) -> DecodeRequest:
    """Return the request if its custom method's code is on this machine: Run never downloads code.

    Raises:
        MethodError: the method is not on this machine.
    """
    name = request.params.get("method")
    if isinstance(name, str) and not is_local_method(name.strip()):
        raise MethodError(
            "The code of {name} is not on this machine yet: “Fetch its code” below its "
            "name brings and shows it.",
            name=format_value(name.strip()),
        )
    return request


def read_strategy(payload: Mapping[str, Any]) -> Strategy:
    """Return the strategy that a form names.

    Raises:
        ParameterError: no strategy has this name.
    """
    name = payload.get("strategy")
    # A list or an object is not hashable, and the lookup would raise.
    strategy = STRATEGIES.get(name) if isinstance(name, str) else None
    if strategy is None:
        raise ParameterError(
            "strategy", name, Message("it must be one of {choices}", choices=", ".join(STRATEGIES))
        )
    return strategy


def read_assistant(strategy: Strategy, payload: Mapping[str, Any]) -> Any:
    """Return the draft model that a form names, or None if the strategy uses none."""
    return (payload.get("assistant") or None) if strategy.assistant != "none" else None


def form_params(strategy: Strategy, given: Any) -> dict[str, Any]:
    """Return the parameters that differ from the strategy's defaults, as raw values.

    Raises:
        ParameterError: a value cannot be read; the sentence names the parameter.
    """
    if not isinstance(given, Mapping):
        raise ParameterError("params", given, "it must be an object of names and values")
    weights = weights_params(assistant=True)
    return _changed_params(
        params_of(strategy.config),
        defaults_of(strategy.config),
        {name: value for name, value in given.items() if name not in weights},
    )


def form_weights(strategy: Strategy, given: Any) -> dict[str, Any]:
    """Return the weight parameters (precision, placement) that differ from their defaults, raw.

    Raises:
        ParameterError: a value cannot be read; the sentence names the parameter.
    """
    if not isinstance(given, Mapping):
        raise ParameterError("params", given, "it must be an object of names and values")
    drafted = strategy.assistant != "none"
    kinds = weights_params(drafted)
    settings = {name: value for name, value in given.items() if name in weights_params(True)}
    found = _changed_params(kinds, weights_defaults(drafted), settings)
    # A disabled control may hold any value.
    return {name: value for name, value in found.items() if _is_active(name, found)}


def single_model_weights(given: Any) -> dict[str, Any]:
    """Return the weight parameters of a model that only scores text, as raw values.

    Raises:
        ParameterError: a value cannot be read; values are not checked yet.
    """
    if not isinstance(given, Mapping):
        raise ParameterError("weights", given, "it must be an object of names and values")
    found = _changed_params(weights_params(False), weights_defaults(False), given)
    return {name: value for name, value in found.items() if _is_active(name, found)}


def _is_active(name: str, weights: Mapping[str, Any]) -> bool:
    prefix = ASSISTANT_PREFIX if name.startswith(ASSISTANT_PREFIX) else ""
    other, value = REQUIRED_SETTINGS.get(name.removeprefix(prefix), ("", None))
    return weights.get(prefix + other) == value


def _changed_params(
    kinds: Mapping[str, Param], defaults: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    params = {
        # Unknown names stay: the engine rejects them by name.
        name: controls.from_control(name, kinds[name], value) if name in kinds else value
        for name, value in given.items()
    }
    return {n: v for n, v in params.items() if n not in defaults or not _is_same(v, defaults[n])}


def _is_same(value: Any, default: Any) -> bool:
    # In Python True == 1, but a flag and a number are different values.
    if isinstance(value, bool) or isinstance(default, bool):
        return value is default
    return (tuple(value) if isinstance(value, list) else value) == default
