"""What a form of the page sends, read as a request; the engine judges every value in its own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.declare.params import Param, defaults_of, params_of
from engine.declare.weights import ASSISTANT, NEEDS, weights_defaults, weights_params
from engine.errors import MethodError, ParameterError, shown
from engine.methods.finding import is_here
from engine.run.request import DecodeRequest
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy
from playground import controls, media, speech


def form_request(asked: Mapping[str, Any]) -> DecodeRequest:
    """Read a form: strategy, model, assistant, prompt or messages with template, image, audio, speech, seed, params.

    Raises:
        ParameterError: one sentence naming what is wrong; values are not checked yet.
    """
    strategy, messages = strategy_of(asked), asked.get("messages")
    given = media.of_form(asked)
    return DecodeRequest(
        strategy.name,
        asked.get("model") or strategy.default_model,
        _prompt(asked.get("prompt"), given) if messages is None else None,
        params=form_params(strategy, asked.get("params") or {}),
        weights=form_weights(strategy, asked.get("params") or {}),
        seed=controls.whole(asked.get("seed")),
        assistant=assistant_of(strategy, asked),
        messages=messages,
        template=None if messages is None else asked.get("template"),
        speech=speech.of_form(asked),
        **given,
    )


def _prompt(prompt: Any, given: Mapping[str, Any]) -> Any:
    """Return what a form says; beside a picture or a sound nothing has to be said."""
    return None if given and prompt == "" else prompt


def check_here(request: DecodeRequest) -> DecodeRequest:
    """Return a request of the page whose code is on this machine: nothing is fetched by a press of Run.

    Raises:
        MethodError: its custom generation method has to be fetched, or cannot be had.
    """
    name = request.params.get("method")
    if isinstance(name, str) and not is_here(name.strip()):
        raise MethodError(
            f"The code of {shown(name.strip())} is not on this machine yet: “Fetch its code” below its name brings and"
            " shows it."
        )
    return request


def strategy_of(asked: Mapping[str, Any]) -> Strategy:
    """Return the strategy that a form names.

    Raises:
        ParameterError: there is none of this name.
    """
    name = asked.get("strategy")
    strategy = STRATEGIES.get(name) if isinstance(name, str) else None
    if strategy is None:
        raise ParameterError("strategy", name, f"it must be one of {', '.join(STRATEGIES)}")
    return strategy


def assistant_of(strategy: Strategy, asked: Mapping[str, Any]) -> Any:
    """Return the draft model that a form names, None where the strategy takes none."""
    return (asked.get("assistant") or None) if strategy.assistant != "none" else None


def form_params(strategy: Strategy, given: Any) -> dict[str, Any]:
    """Return the parameters that differ from the strategy's defaults, as raw values.

    Raises:
        ParameterError: one sentence naming the parameter.
    """
    if not isinstance(given, Mapping):
        raise ParameterError("params", given, "it must be an object of names and values")
    held = weights_params(assistant=True)
    return _changed(
        params_of(strategy.config),
        defaults_of(strategy.config),
        {name: value for name, value in given.items() if name not in held},
    )


def form_weights(strategy: Strategy, given: Any) -> dict[str, Any]:
    """Return what a form's parameters say of how weights are held, as raw values.

    Raises:
        ParameterError: one sentence naming the parameter.
    """
    if not isinstance(given, Mapping):
        raise ParameterError("params", given, "it must be an object of names and values")
    drafted = strategy.assistant != "none"
    kinds = weights_params(drafted)
    said = {name: value for name, value in given.items() if name in weights_params(True)}
    found = _changed(kinds, weights_defaults(drafted), said)
    # A control that is put off may hold anything.
    return {name: value for name, value in found.items() if _acts(name, found)}


def one_models_weights(given: Any) -> dict[str, Any]:
    """Return what a form says of how one model is held that reads and does not write, as raw values.

    Raises:
        ParameterError: one sentence naming the parameter; values are not checked yet.
    """
    if not isinstance(given, Mapping):
        raise ParameterError("weights", given, "it must be an object of names and values")
    found = _changed(weights_params(False), weights_defaults(False), given)
    return {name: value for name, value in found.items() if _acts(name, found)}


def _acts(name: str, weights: Mapping[str, Any]) -> bool:
    prefix = ASSISTANT if name.startswith(ASSISTANT) else ""
    other, value = NEEDS.get(name.removeprefix(prefix), ("", None))
    return weights.get(prefix + other) == value


def _changed(
    kinds: Mapping[str, Param], defaults: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    params = {
        name: controls.read(name, kinds[name], value) if name in kinds else value
        for name, value in given.items()
    }
    return {n: v for n, v in params.items() if n not in defaults or not _same(v, defaults[n])}


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, bool) or isinstance(default, bool):
        return value is default
    return (tuple(value) if isinstance(value, list) else value) == default
