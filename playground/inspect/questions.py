"""Request-reply questions of the page: exported code, run state, links, other modules' actions."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import gradio as gr

from engine.errors import ParameterError
from engine.export.files import CONFIG, export_files, generation_config_text, pipeline_refusal
from engine.export.verify import verify_export
from engine.messages import to_json
from engine.settings import SETTINGS
from engine.trace.records import Trace
from playground.forms.links import open_link
from playground.forms.visitor_media import VISITOR_FIELD, hide_foreign_media
from playground.inspect import (
    chat_preview,
    draft_models,
    generate_outputs,
    generation_config,
    influence,
    methods,
    model_comparison,
    preflight,
    what_if,
    why,
)
from playground.inspect.trace_input import parse_trace
from playground.runs.stream import run_state_or_empty
from playground.shell.elements import PAGE_EVENT, add_hidden_element, event_data
from playground.shell.guard import error_message
from playground.shell.listeners import LISTENERS
from playground.shell.scripts import on_message
from playground.shell.visitors import current_session, set_current_visitor

_MAX_ID = 2**31
_QUESTION_MODULES = (
    generation_config,
    influence,
    methods,
    draft_models,
    preflight,
    chat_preview,
    generate_outputs,
    what_if,
    why,
)
"""Modules that answer further actions. Each has ``ACTIONS`` and ``act(asked)``."""
_STOP_EVENTS: dict[str, threading.Event] = {}
"""Stop events by the unguessable id that the page generated.

A stop may arrive before its check begins.
"""
_MAX_STOP_EVENTS = 64


def build_question_bus() -> None:
    """Build the hidden element that carries the page's questions and the answers."""
    replies = add_hidden_element(
        "dp-ask-bus", on_message("p.ask((data) => trigger('input', data))")
    )
    replies.input(
        _handle_event, None, replies, concurrency_limit=None, trigger_mode="multiple", **PAGE_EVENT
    )


def format_reply(number: Any, **values: Any) -> str:
    """Return the JSON reply to question ``number``; the id is 0 if that is not a valid number."""
    known = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < _MAX_ID
    return to_json({"id": number if known else 0, **values})


def _handle_event(event: gr.EventData) -> str:
    set_current_visitor()
    asked = hide_foreign_media(event_data(event))
    number = asked.get("id")
    try:
        return format_reply(number, **answer_question(asked))
    except BaseException as error:  # without a reply the page would wait for ever
        return format_reply(number, error=error_message(error))


def answer_question(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one question of the page.

    Args:
        asked: ``action`` and its fields. ``files`` returns exported texts by path, and the reason
            if there is no pipeline. ``verify_export`` runs the code of ``form`` generate or pipeline.
            ``beside`` scores a run with another model (see ``beside.act``). These three take a
            ``trace`` as JSON values whose steps may be left out. ``stop`` stops the check or
            scoring with the id ``press``. ``state`` returns all messages of a ``run``, empty for an
            unknown one. ``link`` opens the query string ``search`` for ``visitor``. Other actions
            belong to one of ``_QUESTION_MODULES``.

    Raises:
        EngineError: One sentence naming what is not valid.
    """
    action = asked.get("action")
    if action == "files":
        trace = parse_trace(asked.get("trace"))
        files = {**export_files(trace), CONFIG: generation_config_text(trace)}
        return {"files": files, "no_pipeline": pipeline_refusal(trace)}
    if action == "verify":
        form = str(asked.get("form", "generate"))[:20]
        return _verify_code(parse_trace(asked.get("trace")), str(asked.get("press", "")), form)
    if action == "beside":
        return _score_with_other_model(asked)
    if action == "stop":
        _stop_event(str(asked.get("press", ""))).set()
        return {}
    if action == "state":
        return {"state": run_state_or_empty(str(asked.get("run", ""))[:64])}
    if action == "link":
        return open_link(str(asked.get("search", "")), asked.get(VISITOR_FIELD))
    room = next((room for room in _QUESTION_MODULES if action in room.ACTIONS), None)
    if room is not None:
        return room.act(asked)
    raise ParameterError("action", action, "there is no such question")


def _score_with_other_model(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Score a run with another model, until stopped or the page has been gone for ``away_s``."""
    press = str(asked.get("press", ""))
    stopped, own, began = _stop_event(press), current_session(), time.monotonic()

    def gone() -> bool:
        return stopped.is_set() or LISTENERS.idle_s(own, began) > SETTINGS.away_s

    try:
        return model_comparison.act(asked, parse_trace(asked.get("trace")), gone)
    finally:
        _STOP_EVENTS.pop(press[:64], None)


def _verify_code(trace: Trace, press: str, form: str) -> dict[str, Any]:
    """Run the exported code, until it is stopped or the page has been gone for ``away_s``."""
    stopped, own, began = _stop_event(press), current_session(), time.monotonic()
    try:
        found = verify_export(
            trace,
            lambda: stopped.is_set() or LISTENERS.idle_s(own, began) > SETTINGS.away_s,
            form,
        )
    finally:
        _STOP_EVENTS.pop(press[:64], None)
    return {"equal": found.equal, "seconds": found.seconds, "message": found.message}


def _stop_event(press: str) -> threading.Event:
    found = _STOP_EVENTS.setdefault(press[:64], threading.Event())
    while len(_STOP_EVENTS) > _MAX_STOP_EVENTS:
        _STOP_EVENTS.pop(next(iter(_STOP_EVENTS)), None)
    return found
