"""Links: conversion between query strings and requests, forms and other states of the page.

A request is ``strategy``, ``model``, ``assistant``, ``prompt``, ``params`` and ``seed``. A
conversation has ``messages`` and ``template`` as JSON instead of the prompt. A branch has ``ids``,
``kept``, ``at``, and ``put`` or ``text``. ``image`` and ``audio`` name a built-in example, or the
hash of a file that this visitor sent; a link never contains the file. ``language``, ``task`` and
``timestamps`` are options of a speech model. ``trace`` names a recorded run, ``tab`` a tab,
``lesson`` and ``card`` a card, ``step`` a step from 1. ``pressed`` asks for a new run.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from engine.analysis import gallery
from engine.analysis.fork import shared_params
from engine.declare.params import params_of
from engine.declare.weights import weights_params
from engine.errors import ParameterError
from engine.lessons import library
from engine.messages import Message
from engine.run.chat_request import check_messages, strip_default_start
from engine.run.request import DecodeRequest
from engine.run.weights import read_request_weights, read_single_weights, weights_from_trace
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from engine.strategies.base import Preset
from engine.trace.records import Trace
from playground.forms import controls, link_values, speech, tune_form, visitor_media
from playground.forms.form import (
    check_values,
    form_request,
    read_strategy,
    single_model_weights,
)
from playground.forms.link_values import join_ids, read_ids, read_seed, read_step
from playground.forms.seeds import format_seeds, read_seeds
from playground.forms.spec import control_values

_MAX_CHAT_CHARS = 100_000
_LESSONS = "lessons"
_FORM_TABS = ("compare", "tune", "draws", "watermark_bench")
"""Tabs whose whole form is one JSON object in the link."""
_PLAIN_TABS = ("taste", "replay")
"""Tabs without a form in the link."""


def to_link(request: DecodeRequest) -> str:
    """Return the query string that repeats a run or a branch."""
    fields: dict[str, Any] = {
        "strategy": request.strategy,
        "model": request.model or "",
        "assistant": request.assistant or "",
        "prompt": request.prompt or "",
        "messages": "" if request.messages is None else _to_json(request.messages),
        "template": _to_json(request.template) if request.template else "",
        **_branch_fields(request),
        **{kind: name or "" for kind, name in _media_names(request).items()},
        **speech.speech_to_link(request.speech),
        "params": _to_json({**request.params, **request.weights}),
        "seed": request.seed,
    }
    return "?" + urlencode({name: value for name, value in fields.items() if value != ""})


def _media_names(request: DecodeRequest) -> dict[str, str | None]:
    """Return the form names of a request's image and audio."""
    return {
        kind: visitor_media.to_form_name(getattr(request, kind)) for kind in visitor_media.KINDS
    }


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _branch_fields(request: DecodeRequest) -> dict[str, Any]:
    parent, ids = request.parent, request.input_ids
    if parent is None or ids is None:
        return {}
    # The ids are prompt, kept tokens and inserted tokens, in this order.
    start = len(ids) - len(parent.token_ids) - parent.kept
    return {
        "ids": join_ids(ids[:start]),
        "kept": join_ids(ids[start : start + parent.kept]),
        "at": parent.step + 1,
        "put": "" if parent.text is not None else join_ids(parent.token_ids),
        "text": parent.text or "",
        "earlier": parent.earlier or "",
    }


def request_from_link(
    query: Mapping[str, str], seen: Mapping[str, Any] | None = None
) -> DecodeRequest:
    """Convert a query to a request.

    Args:
        query: the query's fields.
        seen: the image or audio that it names, see ``media.of_form``.

    Raises:
        ParameterError: the strategy is unknown, or a field cannot be read.
    """
    strategy, messages = read_strategy(query), _read_json(query, "messages", list)
    text = query.get("prompt", "")[: SETTINGS.max_prompt_chars] or (None if seen else "")
    template = None if messages is None else _read_json(query, "template", dict)
    if messages is not None:
        check_messages(messages, template)
    model = query.get("model")
    params, weights = link_values.read_params(query.get("params", "{}"), strategy, model)
    request = DecodeRequest(
        strategy=strategy.name,
        model=model or None,
        prompt=text if messages is None else None,
        params=params,
        weights=weights,
        seed=read_seed(query.get("seed", "0")),
        assistant=query.get("assistant") or None,
        messages=messages,
        template=template,
        speech=speech.speech_from_link(query),
        **(seen or {}),
    )
    # Reject weight options that this deployment does not offer: no control could show them.
    read_request_weights(strategy, request)
    return request


def _read_json(query: Mapping[str, str], name: str, kind: type) -> Any:
    """Return a JSON field of a query, or None if it is absent."""
    if name not in query:
        return None
    try:
        value = json.loads(query[name][:_MAX_CHAT_CHARS])
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        allowed = (
            "the link's must be JSON, a list"
            if kind is list
            else "the link's must be JSON, an object"
        )
        raise ParameterError(name, query[name][:40], allowed)
    return value


def to_form(request: DecodeRequest) -> dict[str, Any]:
    """Convert a request to a form of control values; ids or messages make ``prompt`` None."""
    strategy = STRATEGIES[request.strategy]
    named = {"model": request.model, "assistant": request.assistant}
    model, assistant = (value if isinstance(value, str) else "" for value in named.values())
    seen, alone = _media_names(request), request.input_ids is None and request.messages is None
    return {
        "strategy": request.strategy,
        "prompt": request.prompt or ("" if alone and any(seen.values()) else request.prompt),
        **seen,
        "speech": dict(request.speech) or None,
        "messages": None if request.messages is None else [dict(m) for m in request.messages],
        "template": None if request.messages is None else dict(request.template or {}),
        "model": model or strategy.default_model,
        "assistant": assistant or strategy.default_assistant or "",
        # As text: JavaScript numbers are exact to 2**53 only.
        "seed": str(request.seed),
        "values": {
            **control_values(strategy, request.params, request.weights),
            **link_values.read_sampler(request.params, strategy, request.model),
        },
    }


def preset_form(strategy: str, preset: Preset) -> dict[str, Any]:
    """Return the form of a preset."""
    seen = {kind: getattr(preset, kind) for kind in visitor_media.KINDS if getattr(preset, kind)}
    return to_form(
        DecodeRequest(
            strategy,
            preset.model,
            preset.prompt or (None if seen else preset.prompt),
            params=preset.params,
            seed=preset.seed,
            **seen,
        )
    )


def trace_form(trace: Trace) -> dict[str, Any] | None:
    """Return the form that repeats a recorded run, or None for a branch or without a prompt."""
    strategy = STRATEGIES.get(trace.strategy)
    if strategy is None or trace.parent is not None:
        return None
    messages, template = trace.messages, trace.template
    if trace.prompt is None and messages is None and not trace.media:
        return None
    params = shared_params(trace.config, strategy)
    assistant = trace.assistant.id if trace.assistant else None
    # Media are named by hash; the reader of the trace may not have the file.
    seen = visitor_media.form_names(trace.media)
    return to_form(
        DecodeRequest(
            strategy.name,
            trace.model.id,
            trace.prompt,
            **seen,
            speech=trace.speech or {},
            params=params,
            seed=trace.seed,
            assistant=assistant,
            messages=messages,
            template=None if messages is None else strip_default_start(messages, template or {}),
            weights=weights_from_trace(trace),
        )
    )


def open_link(search: str, visitor: Any = None) -> dict[str, Any]:
    """Return what a link opens, as JSON values.

    Args:
        search: the query string, with or without "?".
        visitor: the page's id of the visitor, to find files that they sent.

    Returns:
        ``tab`` and ``step``, None if the link names none, and one of: ``recorded``, the name of a
        recorded run or None for the tab's default; ``form``, to fill in and run; ``lesson``, its
        name or None, with ``language`` and ``card``. A form may have ``branch``, the request to
        continue a run (see ``fork.request_of``), and ``lacks``, the kinds of missing media.

    Raises:
        EngineError: a field cannot be read.
    """
    query = dict(parse_qsl(search.removeprefix("?")))
    step = read_step(query.get("step"))
    if "trace" in query:
        return _open_trace(query, step)
    tab = query.get("tab")
    if tab in _FORM_TABS:
        return {"tab": tab, "step": step, **_read_tab_form(tab, query, visitor)}
    if tab == _LESSONS or (tab is None and "lesson" in query):
        return {"tab": _LESSONS, "step": None, **_open_lesson(query)}
    if tab in _PLAIN_TABS or (tab in STRATEGIES and "strategy" not in query):
        return {"tab": tab, "step": step, "recorded": None}
    if tab is not None and "strategy" not in query:
        known = ", ".join((*STRATEGIES, *_FORM_TABS, *_PLAIN_TABS, _LESSONS))
        raise ParameterError("tab", tab[:40], Message("it must be one of {choices}", choices=known))
    return _open_request(query, step, visitor)


def _open_lesson(query: Mapping[str, str]) -> dict[str, Any]:
    """Return the lesson of a link, its language (None for the page's) and the card, from 1."""
    if "lesson" not in query:
        return {"lesson": None}
    language = query.get("in", library.ENGLISH)[:2]
    if query["lesson"] not in library.list_lesson_files():
        raise link_values.unknown_lesson(query["lesson"])
    file = library.find_lesson_file(query["lesson"], language)
    cards = len(library.load_lesson(file.path, file.name).cards)
    card = read_step(query.get("card"), "card")
    if card is not None and card > cards:
        raise ParameterError(
            "card", card, Message("the lesson has cards 1 to {cards}", cards=cards)
        )
    return {"lesson": file.name, "language": language if "in" in query else None, "card": card or 1}


def _open_trace(query: Mapping[str, str], step: int | None) -> dict[str, Any]:
    entry = gallery.find_entry(query["trace"])
    if entry is None:
        raise link_values.unknown_recording(query["trace"])
    count = len(gallery.open_entry(entry.file).steps)
    if step is not None and step > count:
        raise ParameterError("step", step, Message("the run has steps 1 to {count}", count=count))
    tab = "replay" if query.get("tab") == "replay" else entry.strategy
    return {"tab": tab, "step": step or entry.look_at, "recorded": entry.name}


def _open_request(query: Mapping[str, str], step: int | None, visitor: Any) -> dict[str, Any]:
    seen, lacks = visitor_media.media_from_link(query, visitor)
    request = request_from_link(query, seen)
    form = to_form(request)
    about = {"tab": request.strategy, "step": step}
    if lacks:
        return {**about, "form": form, "lacks": lacks}
    if "ids" in query:
        return {**about, "form": {**form, "prompt": None}, "branch": _read_branch(query)}
    # After a press of Run the page wants that run, not an equal recorded one.
    recorded = None if "pressed" in query else _find_recording(form)
    if recorded is not None:
        return _open_trace({"trace": recorded}, step)
    return {**about, "form": form}


def _find_recording(form: Mapping[str, Any]) -> str | None:
    """Return the name of the recorded run with the same form, or None."""
    presets = STRATEGIES[form["strategy"]].presets
    matching = {p.name for p in presets if preset_form(form["strategy"], p) == form}
    own = (e for e in gallery.list_entries() if e.strategy == form["strategy"])
    return next((entry.name for entry in own if entry.preset in matching), None)


def _read_branch(query: Mapping[str, str]) -> dict[str, Any]:
    put = read_ids("put", query.get("put", ""))
    text = query.get("text")
    if (len(put) == 1) == (text is not None):
        raise ParameterError("put", query.get("put"), "a branch has one token or a text to put")
    at, earlier = read_step(query.get("at"), "at"), read_step(query.get("earlier"), "earlier")
    return {
        "prompt_ids": read_ids("ids", query["ids"]),
        "kept_ids": read_ids("kept", query.get("kept", "")),
        "step": (at or 1) - 1,
        **({} if earlier is None else {"earlier": earlier}),
        **({"token_id": put[0]} if text is None else {"text": text[: SETTINGS.max_prompt_chars]}),
    }


def _read_tab_form(tab: str, query: Mapping[str, str], visitor: Any) -> dict[str, Any]:
    """Return ``form`` of a tab in ``_FORM_TABS``, or ``recorded`` None if the link has no form."""
    if "form" not in query:
        return {"recorded": None}
    try:
        form = json.loads(query["form"][:_MAX_CHAT_CHARS])
    except (ValueError, RecursionError):
        form = None
    if not isinstance(form, dict):
        raise ParameterError("form", query["form"][:40], "the link's form must be a JSON object")
    seeds = {}
    if tab == "tune":
        return {"form": tune_form.check_table_form(form)}
    if tab == "compare":
        found = read_seeds(form.get("seed", 0))
        form, seeds = {**form, "seed": found[0]}, {"seed": format_seeds(found)}
    columns = (
        form.get("columns") if tab == "compare" else [{**form, "strategy": _TAB_STRATEGY[tab]}]
    )
    if not isinstance(columns, list) or not columns:
        raise ParameterError("columns", columns, "the link must name the columns")
    read, lacking = zip(
        *(_read_column(column, form, visitor) for column in columns[:4]), strict=True
    )
    lacks = sorted({kind for kinds in lacking for kind in kinds})
    kept = {
        n: form[n]
        for n in ("base", "text", "draws", "device")
        if isinstance(form.get(n), (str, int))
    }
    shared = {name: read[0][name] for name in ("prompt", "messages", "template", "seed")}
    about = {**shared, **kept, **seeds, **_read_judge_weights(tab, form)}
    whole = {**about, "columns": list(read)} if tab == "compare" else {**read[0], **about}
    return {"form": whole, **({"lacks": lacks} if lacks else {})}


def _read_judge_weights(tab: str, form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weight parameters of a comparison's base model as control values."""
    if tab != "compare" or "base_weights" not in form:
        return {}
    said = single_model_weights(form["base_weights"])
    read_single_weights(said, "compare")
    kinds = weights_params(assistant=False)
    return {"base_weights": {name: controls.to_control(kinds[name], v) for name, v in said.items()}}


_TAB_STRATEGY = {"draws": "sampling", "watermark_bench": "watermark"}


def _read_column(
    column: Any, form: Mapping[str, Any], visitor: Any
) -> tuple[dict[str, Any], list[str]]:
    if not isinstance(column, dict):
        raise ParameterError("columns", column, "each must be an object")
    params = column.get("params") or {}
    if not isinstance(params, dict):
        raise ParameterError("params", params, "it must be an object of names and values")
    strategy = read_strategy(column)
    known = params_of(strategy.config) | weights_params(strategy.assistant != "none")
    own = {name: value for name, value in params.items() if name in known}
    own |= link_values.read_sampler(params, strategy, column.get("model"))
    seen, lacks = visitor_media.media_from_link(column, visitor)
    seed = read_seed(str(form.get("seed", 0)))
    shared = {name: form.get(name) for name in ("prompt", "messages", "template")}
    plain = {name: value for name, value in column.items() if name not in visitor_media.KINDS}
    request = form_request({**plain, **shared, "seed": seed, "params": own})
    if seen:
        request = dataclasses.replace(request, prompt=request.prompt or None, **seen)
    if not lacks:
        check_values(request)
    return to_form(request), lacks
