"""What-if questions: one step of a run with other settings, or the first step that would change.

``step_scores`` sends what decides a step, so that the page follows a dial without further questions.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from engine.declare.config import config_to_dict
from engine.declare.params import params_of
from engine.errors import ParameterError
from engine.inspection.logits_cache import CachedRun
from engine.inspection.step_logits import RunNotCachedError, find_logits
from engine.inspection.step_ref import StepRef
from engine.inspection.step_scores import compute_step_scores
from engine.inspection.what_if import (
    ChangedRun,
    SettingsChange,
    apply_change,
    scan_run,
    to_parameters,
)
from engine.inspection.what_if_report import build_what_if_report
from engine.models.loading import find_loaded_model, find_recorded_model, load
from engine.one_shot_thread import run_in_thread
from engine.run.weights import weights_from_trace
from engine.sources.catalogue import CATALOGUE
from engine.trace.records import Trace
from playground.forms import controls
from playground.forms.spec import control_values
from playground.inspect.question_fields import find_run
from playground.jobs.registry import JOBS, JobKind
from visualizers.base import nats_to_bits

if TYPE_CHECKING:
    import torch

ACTIONS = ("what_if", "what_if_first", "step_scores")
# Few questions are computed at once, so that runs keep the processor.
_KIND = JobKind("what_if", slots=2, latest_only=True)


def act(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one what-if question.

    Args:
        payload: ``action``, one of ACTIONS; ``run``, the id of a recent run, or its ``trace`` as JSON
            values (only the step in question needs candidates); ``step`` from 0; ``params``, values
            of controls; ``off`` and ``order``, names of processors; ``press``, an id;
            an earlier question with it is cancelled.

    Returns:
        The answer. Only ``forgotten`` if the run is not cached any more and the page must send its
        trace.

    Raises:
        Cancelled: A newer question has the same ``press``.
        EngineError: One sentence naming the problem.
    """
    answers = {"what_if_first": _find_first_change, "step_scores": _send_step_scores}
    make = answers.get(str(payload.get("action")), _answer_step)
    try:
        with JOBS.run(_KIND, payload.get("press")) as job:
            return run_in_thread(lambda: make(payload, job.cancelled))
    except RunNotCachedError as error:
        return {"forgotten": str(error)}


def _answer_step(payload: Mapping[str, Any], cancelled: threading.Event) -> dict[str, Any]:
    del cancelled
    place = _find_place(payload)
    request = _read_request(place.run, payload)
    found = build_what_if_report(place, request)
    values = to_parameters(request)
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
                "bits": nats_to_bits(s.entropy),
                "cut": s.cut,
            }
            for s in found.stages
        ],
        "bits": nats_to_bits(found.entropy),
        "bits_used": nats_to_bits(found.entropy_used),
        "mass": found.mass,
        "kept": found.kept,
        "source": found.source,
        "same_luck": found.same_luck,
        "changed": _changed_params(place.run, request),
        "values": None if values is None else _form_values(place.run, values),
        "pieces": _token_pieces(place.run, ids),
    }


def _find_first_change(payload: Mapping[str, Any], cancelled: threading.Event) -> dict[str, Any]:
    run = _find_place(payload).run
    found = scan_run(run, _read_request(run, payload), cancelled)
    first = found.first
    return {
        "first": None
        if first is None
        else {"step": first.step, "token": first.token_id, "recorded": first.recorded},
        "looked": found.looked,
        "unsure": len(found.unsure),
        "pieces": {} if first is None else _token_pieces(run, {first.token_id, first.recorded}),
    }


def _send_step_scores(payload: Mapping[str, Any], cancelled: threading.Event) -> dict[str, Any]:
    """Answer with arrays of float32 in base64, least significant byte first.

    ``scores`` is None if the page cannot decide the step; equal ``logits`` are left out.
    """
    del cancelled
    place = _find_place(payload)
    found = compute_step_scores(place)
    if found is None:
        return {"scores": None}
    same = bool((found.logits == found.scores).all())
    return {
        "scores": _encode_floats(found.scores),
        "logits": None if same else _encode_floats(found.logits),
        "noise": None if found.noise is None else _encode_floats(found.noise),
        "removed": {str(token_id): name for token_id, name in found.removed.items()},
        "pieces": _token_pieces(place.run, set(found.nameable)),
    }


def _find_place(payload: Mapping[str, Any]) -> StepRef:
    """Return the step in question. An embedded model is loaded for it, as that takes a moment only."""
    run = find_run(payload)
    if isinstance(run, Trace) and find_recorded_model(run.model) is None:
        entry = CATALOGUE.get(run.model.id)
        if entry is not None and entry.embedded:
            load(entry.name)
    return find_logits(run, payload.get("step"))


def _encode_floats(values: torch.Tensor) -> str:
    return base64.b64encode(values.numpy().astype("<f4").tobytes()).decode("ascii")


def _read_request(run: CachedRun, payload: Mapping[str, Any]) -> ChangedRun:
    given = payload.get("params") or {}
    if not isinstance(given, Mapping):
        raise ParameterError("params", given, "it must be an object of names and values")
    kinds = params_of(run.strategy.config)
    params = {
        n: controls.from_control(n, kinds[n], v) if n in kinds else v for n, v in given.items()
    }
    return apply_change(
        run, SettingsChange(params, payload.get("off") or (), payload.get("order") or ())
    )


def _changed_params(run: CachedRun, request: ChangedRun) -> list[str]:
    """Return the names of the changed parameters."""
    old, new = config_to_dict(run.config), config_to_dict(request.config)
    return [name for name in new if new[name] != old[name]]


def _form_values(run: CachedRun, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the control values of a run's settings, changed by ``params``."""
    weights = weights_from_trace(run.header)
    return control_values(run.strategy, {**config_to_dict(run.config), **params}, weights)


def _token_pieces(run: CachedRun, ids: set[int]) -> dict[str, str]:
    """Return the text pieces of tokens. The trace alone may lack those that were not candidates."""
    model = run.header.model
    loaded = run.get_model() or find_loaded_model(model.id, model.revision)
    if loaded is not None:
        return {str(i): loaded.pieces[i] for i in sorted(ids)}
    return {str(i): run.header.pieces[i] for i in sorted(ids) if i in run.header.pieces}
