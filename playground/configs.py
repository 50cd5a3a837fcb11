"""Settings as generation_config.json: save, load, and see a model's own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.errors import ParameterError
from engine.export import generation_config as config_io
from playground.form import form_params, strategy_of
from playground.spec import shown_values

ACTIONS = ("write", "read", "defaults")


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the page is told about the settings of a form.

    Args:
        asked: ``action``, one of ACTIONS, and the ``strategy`` with its ``params``. ``write`` makes
            a file's ``text`` of them, ``read`` takes a file's text and returns ``values``, what every
            control then shows; ``defaults`` is about the ``model`` alone.

    Raises:
        EngineError: a control or a file is not valid; one sentence.
    """
    strategy, action = strategy_of(asked), asked.get("action")
    if action == "write":
        text = config_io.write(strategy.name, form_params(strategy, asked.get("params") or {}))
        params = config_io.read(text, strategy.name).params
        return {"text": text, "params": config_io.changed(strategy.name, params)}
    if action == "read":
        found = config_io.read(_text(asked.get("text")), strategy.name)
        return {
            "left_out": list(found.left_out),
            "params": config_io.changed(strategy.name, found.params),
            "values": shown_values(strategy, found.params),
        }
    if action == "defaults":
        given = asked.get("model")
        model = given if isinstance(given, str) else ""
        return {"model": model, "defaults": config_io.model_defaults(model)}
    raise ParameterError("action", action, f"it must be one of {', '.join(ACTIONS)}")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ParameterError("text", value, "it must be the text of a generation_config.json")
    return value
