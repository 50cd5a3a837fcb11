"""Settings as generation_config.json: save, load, and compare with a model's own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.declare.params import params_of
from engine.errors import ParameterError
from engine.export import generation_config as config_io
from engine.export.own_defaults import OwnDefaults, own_defaults
from engine.export.settings_text import read_settings_text
from engine.messages import Message
from engine.sources.source import Source
from engine.strategies import STRATEGIES
from playground.forms import controls
from playground.forms.form import form_params, read_strategy
from playground.forms.spec import control_values

ACTIONS = ("write", "read", "defaults")


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one question about the settings of a form.

    Args:
        payload: ``action``, one of ACTIONS, and the ``strategy``. ``write`` takes ``params`` and
            returns the file's ``text``. ``read`` takes a ``text``, a file or keyword arguments, and
            returns the ``strategy`` that it chooses, ``values``, the new value of every control,
            and ``left_out``. ``defaults`` compares the file of ``model`` with the
            strategy's defaults: ``differs``, the number of the ``same``, and ``left_out``,
            sentences on what cannot be used.

    Raises:
        EngineError: a control or a file is not valid.
    """
    strategy, action = read_strategy(payload), payload.get("action")
    if action == "write":
        text = config_io.format_config(
            strategy.name, form_params(strategy, payload.get("params") or {})
        )
        params = config_io.parse_config(text, strategy.name).params
        return {"text": text, "params": config_io.non_default_params(strategy.name, params)}
    if action == "read":
        found = read_settings_text(_require_text(payload.get("text")), strategy.name)
        return {
            "strategy": found.strategy,
            "left_out": list(found.left_out.values()),
            "params": config_io.non_default_params(found.strategy, found.params),
            "values": control_values(STRATEGIES[found.strategy], found.params),
        }
    if action == "defaults":
        return _defaults_answer(
            payload.get("model"), own_defaults(Source.find(payload.get("model")), strategy.name)
        )
    raise ParameterError(
        "action", action, Message("it must be one of {choices}", choices=", ".join(ACTIONS))
    )


def _defaults_answer(model: Any, found: OwnDefaults) -> dict[str, Any]:
    kinds = params_of(STRATEGIES[found.strategy].config)
    return {
        "model": model if isinstance(model, str) else "",
        "differs": [
            {
                "name": name,
                "label": kinds[name].label,
                "value": controls.to_control(kinds[name], value),
                "default": controls.to_control(kinds[name], found.defaults[name]),
            }
            for name, value in found.params.items()
        ],
        "same": len(found.same),
        "left_out": list(found.left_out.values()),
    }


def _require_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ParameterError("text", value, "it must be a text with settings")
    return value
