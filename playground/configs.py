"""Settings as generation_config.json: save, load, keep several, and see a model's own defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from engine.errors import ParameterError
from engine.export import generation_config as config_io
from engine.run.request import DecodeRequest
from engine.strategies.base import Strategy
from playground.export import reply
from playground.guard import sentence
from playground.scripts import on_load


def build_panel(strategy: Strategy) -> Any:
    """Return the panel's element; the page's script fills it."""
    return gr.HTML(
        "",
        html_template='<div class="dp-configs"></div>',
        elem_id=f"{strategy.name}-configs",
        js_on_load=on_load(
            f"p.configs(element.querySelector('.dp-configs'), '{strategy.name}',"
            " (data) => trigger('input', data))"
        ),
        apply_default_css=False,
    )


def wire_panel(panel: Any, replies: Any, tab: Any) -> None:
    """Let the panel of a tab read and set the tab's controls.

    Args:
        panel: what ``build_panel`` returned.
        replies: the hidden element that carries answers to the page.
        tab: the tab with its controls (``inputs``, ``request``, ``updates``).
    """

    def handle(event: gr.EventData, *values: Any) -> list[Any]:
        asked = event._data if isinstance(event._data, dict) else {}
        unchanged = [gr.skip()] * len(tab.inputs)
        try:
            answer, updates = act(tab, asked, values)
            return [reply(asked.get("id"), **answer), *(updates or unchanged)]
        except BaseException as error:
            return [reply(asked.get("id"), error=sentence(error)), *unchanged]

    panel.input(
        handle,
        tab.inputs,
        [replies, *tab.inputs],
        concurrency_limit=4,
        api_visibility="private",
        show_progress="hidden",
    )


def act(
    tab: Any, asked: Mapping[str, Any], values: tuple[Any, ...]
) -> tuple[dict[str, Any], list[Any] | None]:
    """Return the answer to the page and the new values of the controls, None to leave them.

    Raises:
        EngineError: a control or a file is not valid; one sentence.
    """
    strategy, action = tab.strategy.name, asked.get("action")
    request = tab.request(*values)
    if action == "write":
        text = config_io.write(strategy, request.params)
        params = config_io.read(text, strategy).params
        return {"text": text, "params": config_io.changed(strategy, params)}, None
    if action == "read":
        found = config_io.read(_text(asked.get("text")), strategy)
        shown = DecodeRequest(
            strategy,
            request.model,
            request.prompt,
            params=found.params,
            seed=request.seed,
            assistant=request.assistant,
        )
        params = config_io.changed(strategy, found.params)
        return {"left_out": list(found.left_out), "params": params}, tab.updates(shown)
    if action == "defaults":
        model = request.model if isinstance(request.model, str) else ""
        return {"model": model, "defaults": config_io.model_defaults(model)}, None
    raise ParameterError("action", action, "it must be write, read or defaults")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ParameterError("text", value, "it must be the text of a generation_config.json")
    return value
