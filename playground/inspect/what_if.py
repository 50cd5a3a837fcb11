"""What-if questions: one step of a run with other settings, or the first step that would change."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

from engine.declare.config import as_dict
from engine.declare.params import params_of
from engine.errors import Cancelled, EngineError, ParameterError
from engine.inspection.logits_cache import KeptRun
from engine.inspection.step_ref import ForgottenError, place_of
from engine.inspection.what_if import Asked, Change, ask, scan, settings_of
from engine.inspection.what_if_report import answer
from engine.models.loading import in_memory
from engine.one_shot_thread import aside
from engine.run.weights import recorded_weights
from engine.trace.json_io import trace_from_dict
from engine.trace.records import Trace
from playground.forms import controls
from playground.forms.spec import shown_values
from playground.jobs.latest_only import Turns
from visualizers.base import bits

ACTIONS = ("what_if", "what_if_first")
_TURNS = Turns(2)
"""Questions computed at once. Few, so that runs keep the processor."""


def act(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one what-if question.

    Args:
        asked: ``action``, one of ACTIONS; ``run``, the id of a recent run, or its ``trace`` as JSON
            values (only the step in question needs candidates); ``step`` from 0; ``params``, values
            of controls; ``off`` and ``order``, names of processors; ``asker``, whose earlier
            question is cancelled.

    Returns:
        The answer. Only ``forgotten`` if the run is not cached any more and the page must send its
        trace. Only ``superseded`` if the asker has sent a newer question.

    Raises:
        EngineError: One sentence naming the problem.
    """
    make = _first if asked.get("action") == "what_if_first" else _one
    try:
        with _TURNS.of(asked.get("asker")) as cancelled:
            return aside(lambda: make(asked, cancelled))
    except ForgottenError as error:
        return {"forgotten": str(error)}
    except Cancelled:
        return {"superseded": True}


def _one(asked: Mapping[str, Any], cancelled: threading.Event) -> dict[str, Any]:
    del cancelled
    place = place_of(_which(asked), asked.get("step"))
    request = _request(place.run, asked)
    found = answer(place, request)
    values = settings_of(request)
    ids = {found.token_id, found.recorded, *(o.token_id for o in found.options)}
    return {
        "token": found.token_id,
        "recorded": found.recorded,
        "sample": found.sample,
        "options": [
            {"id": o.token_id, "raw": o.raw, "used": o.used, "removed": o.removed_by}
            for o in found.options
        ],
        "rest": {"raw": found.rest_raw, "used": found.rest_used},
        "stages": [
            {
                "name": s.name,
                "on": s.on,
                "kept": s.kept,
                "removed": s.removed,
                "mass": s.mass,
                "bits": bits(s.entropy),
                "cut": s.cut,
            }
            for s in found.stages
        ],
        "bits": bits(found.entropy),
        "bits_used": bits(found.entropy_used),
        "mass": found.mass,
        "kept": found.kept,
        "source": found.source,
        "same_luck": found.same_luck,
        "changed": _changed(place.run, request),
        "values": None if values is None else _values(place.run, values),
        "pieces": _pieces(place.run, ids),
    }


def _first(asked: Mapping[str, Any], cancelled: threading.Event) -> dict[str, Any]:
    run = place_of(_which(asked), asked.get("step")).run
    found = scan(run, _request(run, asked), cancelled)
    first = found.first
    return {
        "first": None
        if first is None
        else {"step": first.step, "token": first.token_id, "recorded": first.recorded},
        "looked": found.looked,
        "unsure": len(found.unsure),
        "pieces": {} if first is None else _pieces(run, {first.token_id, first.recorded}),
    }


def _which(asked: Mapping[str, Any]) -> str | Trace:
    """Return the run's trace if it was sent, else its id ("" if invalid)."""
    data = asked.get("trace")
    if data is None:
        run_id = asked.get("run")
        return run_id if isinstance(run_id, str) else ""
    try:
        json.dumps(data, allow_nan=False)
        return trace_from_dict(data)
    except (ValueError, TypeError, RecursionError):
        raise EngineError("The run is not valid JSON.") from None


def _request(run: KeptRun, asked: Mapping[str, Any]) -> Asked:
    given = asked.get("params") or {}
    if not isinstance(given, Mapping):
        raise ParameterError("params", given, "it must be an object of names and values")
    kinds = params_of(run.strategy.config)
    params = {n: controls.read(n, kinds[n], v) if n in kinds else v for n, v in given.items()}
    return ask(run, Change(params, asked.get("off") or (), asked.get("order") or ()))


def _changed(run: KeptRun, request: Asked) -> list[str]:
    """Return the names of the changed parameters."""
    old, new = as_dict(run.config), as_dict(request.config)
    return [name for name in new if new[name] != old[name]]


def _values(run: KeptRun, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the control values of a run's settings, changed by ``params``."""
    held = recorded_weights(run.header)
    return shown_values(run.strategy, {**as_dict(run.config), **params}, held)


def _pieces(run: KeptRun, ids: set[int]) -> dict[str, str]:
    """Return the text pieces of tokens. The trace alone may lack those that were not candidates."""
    model = run.header.model
    loaded = run.loaded() or in_memory(model.id, model.revision)
    if loaded is not None:
        return {str(i): loaded.pieces[i] for i in sorted(ids)}
    return {str(i): run.header.pieces[i] for i in sorted(ids) if i in run.header.pieces}
