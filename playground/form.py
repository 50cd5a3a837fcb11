"""What a form of the page sends, read as a request; the engine judges every value in its own words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.declare.params import defaults_of, params_of
from engine.errors import ParameterError
from engine.run.request import DecodeRequest
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy
from playground import controls


def form_request(asked: Mapping[str, Any]) -> DecodeRequest:
    """Read a form: strategy, model, assistant, prompt or messages with their template, seed and params.

    Raises:
        ParameterError: one sentence naming what is wrong; values are not checked yet.
    """
    strategy, messages = strategy_of(asked), asked.get("messages")
    return DecodeRequest(
        strategy.name,
        asked.get("model") or strategy.default_model,
        asked.get("prompt") if messages is None else None,
        params=form_params(strategy, asked.get("params") or {}),
        seed=controls.whole(asked.get("seed")),
        assistant=assistant_of(strategy, asked),
        messages=messages,
        template=None if messages is None else asked.get("template"),
    )


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
    kinds, defaults = params_of(strategy.config), defaults_of(strategy.config)
    params = {
        name: controls.read(name, kinds[name], value) if name in kinds else value
        for name, value in given.items()
    }
    return {n: v for n, v in params.items() if n not in defaults or not _same(v, defaults[n])}


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, bool) or isinstance(default, bool):
        return value is default
    return (tuple(value) if isinstance(value, list) else value) == default
