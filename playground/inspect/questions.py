"""Request-reply questions of the page: exported code, run state, links, other modules' actions."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import Any

import gradio as gr

from engine.errors import ParameterError
from engine.export.files import CONFIG, config_of, export_files, no_pipeline
from engine.export.verify import verify
from engine.settings import SETTINGS
from engine.trace.records import Trace
from playground.forms.links import opened
from playground.forms.visitor_media import VISITOR, only_own
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
from playground.inspect.trace_input import trace_of
from playground.runs.stream import known_state
from playground.shell.elements import OF_THE_PAGE, hidden, sent_with
from playground.shell.guard import sentence
from playground.shell.listeners import LISTENERS
from playground.shell.scripts import receiving
from playground.shell.visitors import remember, session

_MAX_ID = 2**31
_ROOMS = (
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
_CHECKS: dict[str, threading.Event] = {}
"""Stop events by the unguessable id that the page generated.

A stop may arrive before its check begins.
"""
_KEPT_CHECKS = 64


def build_replies() -> None:
    """Build the hidden element that carries the page's questions and the answers."""
    replies = hidden("dp-ask-bus", receiving("p.ask((data) => trigger('input', data))"))
    replies.input(
        _answer, None, replies, concurrency_limit=None, trigger_mode="multiple", **OF_THE_PAGE
    )


def reply(number: Any, **values: Any) -> str:
    """Return the JSON reply to question ``number``; the id is 0 if that is not a valid number."""
    known = isinstance(number, int) and not isinstance(number, bool) and 0 <= number < _MAX_ID
    return json.dumps({"id": number if known else 0, **values}, allow_nan=False)


def _answer(event: gr.EventData) -> str:
    remember()
    asked = only_own(sent_with(event))
    number = asked.get("id")
    try:
        return reply(number, **answer(asked))
    except BaseException as error:  # without a reply the page would wait for ever
        return reply(number, error=sentence(error))


def answer(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one question of the page.

    Args:
        asked: ``action`` and its fields. ``files`` returns exported texts by path, and the reason
            if there is no pipeline. ``verify`` runs the code of ``form`` generate or pipeline.
            ``beside`` scores a run with another model (see ``beside.act``). These three take a
            ``trace`` as JSON values whose steps may be left out. ``stop`` stops the check or
            scoring with the id ``press``. ``state`` returns all messages of a ``run``, empty for an
            unknown one. ``link`` opens the query string ``search`` for ``visitor``. Other actions
            belong to one of ``_ROOMS``.

    Raises:
        EngineError: One sentence naming what is not valid.
    """
    action = asked.get("action")
    if action == "files":
        trace = trace_of(asked.get("trace"))
        files = {**export_files(trace), CONFIG: config_of(trace)}
        return {"files": files, "no_pipeline": no_pipeline(trace)}
    if action == "verify":
        form = str(asked.get("form", "generate"))[:20]
        return _verified(trace_of(asked.get("trace")), str(asked.get("press", "")), form)
    if action == "beside":
        return _beside(asked)
    if action == "stop":
        _stopper(str(asked.get("press", ""))).set()
        return {}
    if action == "state":
        return {"state": known_state(str(asked.get("run", ""))[:64])}
    if action == "link":
        return opened(str(asked.get("search", "")), asked.get(VISITOR))
    room = next((room for room in _ROOMS if action in room.ACTIONS), None)
    if room is not None:
        return room.act(asked)
    raise ParameterError("action", action, "there is no such question")


def _beside(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Score a run with another model, until stopped or the page has been gone for ``away_s``."""
    press = str(asked.get("press", ""))
    stopped, own, began = _stopper(press), session(), time.monotonic()

    def gone() -> bool:
        return stopped.is_set() or LISTENERS.alone_s(own, began) > SETTINGS.away_s

    try:
        return model_comparison.act(asked, trace_of(asked.get("trace")), gone)
    finally:
        _CHECKS.pop(press[:64], None)


def _verified(trace: Trace, press: str, form: str) -> dict[str, Any]:
    """Run the exported code, until it is stopped or the page has been gone for ``away_s``."""
    stopped, own, began = _stopper(press), session(), time.monotonic()
    try:
        found = verify(
            trace,
            lambda: stopped.is_set() or LISTENERS.alone_s(own, began) > SETTINGS.away_s,
            form,
        )
    finally:
        _CHECKS.pop(press[:64], None)
    return {"equal": found.equal, "seconds": found.seconds, "message": found.message}


def _stopper(press: str) -> threading.Event:
    found = _CHECKS.setdefault(press[:64], threading.Event())
    while len(_CHECKS) > _KEPT_CHECKS:
        _CHECKS.pop(next(iter(_CHECKS)), None)
    return found
