"""Request-reply questions of the page: exported code, run state, links, other modules' actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gradio as gr

from engine.errors import Cancelled, EngineError, ParameterError
from engine.export.files import CONFIG, export_files, generation_config_text, pipeline_refusal
from engine.export.verify import verify_export
from engine.messages import to_json
from playground.forms.links import open_link
from playground.forms.visitor_media import VISITOR_FIELD, hide_foreign_media
from playground.inspect import (
    chat_preview,
    dial_grid,
    dial_map,
    draft_models,
    endpoint_probe,
    generate_outputs,
    generation_config,
    grammar_check,
    grammar_texts,
    influence,
    methods,
    model_comparison,
    model_install,
    preflight,
    special_tokens,
    tune_plan,
    tune_votes,
    what_if,
    why,
)
from playground.inspect.trace_input import parse_trace
from playground.jobs.registry import JOBS, JobKind
from playground.runs.stream import run_state_or_empty
from playground.shell import lazy_imports
from playground.shell.elements import PAGE_EVENT, add_hidden_element, event_data, read_page_number
from playground.shell.guard import error_message
from playground.shell.scripts import on_message
from playground.shell.visitors import set_current_visitor

_QUESTION_MODULES = (
    generation_config,
    grammar_check,
    grammar_texts,
    influence,
    methods,
    draft_models,
    endpoint_probe,
    model_install,
    preflight,
    chat_preview,
    special_tokens,
    generate_outputs,
    what_if,
    why,
    dial_map,
    dial_grid,
    tune_plan,
    tune_votes,
)
"""Modules that answer further actions. Each has ``ACTIONS`` and ``act(payload)``."""
_VERIFY = JobKind("verify")


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
    return to_json({"id": read_page_number(number), **values})


def _handle_event(event: gr.EventData) -> str:
    set_current_visitor()
    payload = hide_foreign_media(event_data(event))
    number = payload.get("id")
    lazy_imports.wait_until_loaded()
    try:
        return format_reply(number, **answer_question(payload))
    except Cancelled:
        return format_reply(number, superseded=True)
    except BaseException as error:  # without a reply the page would wait for ever
        return format_reply(number, error=error_message(error))


def answer_question(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one question of the page.

    Args:
        payload: ``action`` and its fields. ``files`` returns exported texts by path, and the reason
            if there is no pipeline. ``verify`` runs the code of ``form`` generate or pipeline.
            ``beside`` scores a run with another model (see ``model_comparison.act``). These three take a
            ``trace`` as JSON values whose steps may be left out. ``stop`` stops the job with the
            id ``press``. ``state`` returns all messages of a ``run``, empty for an
            unknown one. ``link`` opens the query string ``search`` for ``visitor``. Other actions
            belong to one of ``_QUESTION_MODULES``.

    Raises:
        EngineError: One sentence naming what is not valid.
        Cancelled: The same part of the page has asked again.
    """
    action = payload.get("action")
    if action == "files":
        trace = parse_trace(payload.get("trace"))
        files = {**export_files(trace), CONFIG: generation_config_text(trace)}
        return {"files": files, "no_pipeline": pipeline_refusal(trace)}
    if action == "verify":
        return _verify_code(payload)
    if action == "beside":
        return model_comparison.act(payload, parse_trace(payload.get("trace")))
    if action == "stop":
        JOBS.stop(str(payload.get("press", "")))
        return {}
    if action == "state":
        return {"state": run_state_or_empty(str(payload.get("run", ""))[:64])}
    if action == "link":
        return _open_link(payload)
    room = next((room for room in _QUESTION_MODULES if action in room.ACTIONS), None)
    if room is not None:
        return room.act(payload)
    raise ParameterError("action", action, "there is no such question")


def _open_link(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a link opens; an error also says that the link is what is wrong."""
    try:
        return open_link(str(payload.get("search", "")), payload.get(VISITOR_FIELD))
    except EngineError as error:
        raise EngineError(
            "This link cannot be opened, because {reason}", reason=str(error)
        ) from None


def _verify_code(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Run the exported code, until it is stopped or its page is gone."""
    form = str(payload.get("form", "generate"))[:20]
    with JOBS.run(_VERIFY, payload.get("press")) as job:
        found = verify_export(parse_trace(payload.get("trace")), job.cancelled.is_set, form)
    return {"equal": found.equal, "seconds": found.seconds, "message": found.message}
