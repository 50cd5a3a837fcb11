"""The influence of earlier positions on a step's token. The newest answers stay cached."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from dataclasses import dataclass

import torch

from engine.errors import EngineError, ParameterError
from engine.inspection.attention import Attention, compute_attention
from engine.inspection.attribution import Attribution, compute_gradient_times_input
from engine.inspection.influence_methods import ATTENTION, GRADIENT, METHODS
from engine.inspection.leave_one_out import compute_leave_one_out
from engine.inspection.logits_cache import CachedRun
from engine.inspection.step_ref import name_model
from engine.inspection.target_token import TargetToken, find_target_token
from engine.media import load_trace_media
from engine.messages import Message
from engine.models.context_check import check_fits_context
from engine.models.devices import default_device
from engine.models.loading import LoadedModel, find_recorded_model, pin_models
from engine.models.weights import to_weights_request
from engine.one_shot_thread import run_in_thread
from engine.run.media_request import load_media_inputs
from engine.run.preparation import ModelLoader
from engine.run.scheduler import ignore_event, wait_for_turn
from engine.run.weights import read_single_weights
from engine.sources.source import Source
from engine.trace.records import Trace
from engine.trace.served_checks import require_local_run

_CACHE_SIZE = 12
_answer_cache: OrderedDict[str, Attention | Attribution] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class InfluenceQuestion:
    """A question about influence on a step.

    Attributes:
        step: index, from 0.
        method: one of METHODS.
        node_id: beam searches: a node of the step's pool; None is the best surviving one.
        at: index among the tokens the step wrote, from 0; None is the one its candidates belong to.
    """

    step: int
    method: str = ATTENTION
    node_id: int | None = None
    at: int | None = None


def compute_influence(
    run: CachedRun | Trace,
    look: InfluenceQuestion,
    cancelled: threading.Event | None = None,
    model: LoadedModel | None = None,
) -> Attention | Attribution:
    """Return the attention or attribution of a step's token.

    It uses the run's own model, loaded with the run's weights settings if necessary, and waits in
    the run queue. Recent answers come from the cache.

    Args:
        run: a cached run, or a trace; steps after the one in question may be missing.
        look: see ``InfluenceQuestion``.
        cancelled: stops waiting and computing when set.
        model: a LoadedModel that replaces the one the trace names.

    Raises:
        Cancelled: ``cancelled`` was set.
        ParameterError: the step, node, token or method does not exist.
        EngineError: the model cannot be loaded or does not support the method, the run's media are
            unavailable, or the queue is full.
    """
    if look.method not in METHODS:
        raise ParameterError(
            "method",
            look.method,
            Message("it must be one of {choices}", choices=", ".join(METHODS)),
        )
    trace = run.trace if isinstance(run, CachedRun) else run
    require_local_run(trace)
    decided = find_target_token(trace, look.step, node_id=look.node_id, at=look.at)
    # Raises if a picture or a sound is missing, before anything is loaded or waits.
    load_trace_media(trace)
    cancelled = cancelled or threading.Event()
    own = run.get_model() if isinstance(run, CachedRun) else None
    loaded = model or own or _load_run_model(trace, cancelled)
    ids = (*decided.prompt_ids, *decided.before, decided.token_id)
    check_fits_context(loaded, ids, len(ids) - 1)
    key = _cache_key(trace, loaded, look.method, decided)
    with _lock:
        found = _answer_cache.get(key)
    if found is None:
        # OpenMP keeps workers for every thread that ever computed; idle ones slow small models.
        found = run_in_thread(
            lambda: _compute_answer(trace, loaded, look.method, decided, cancelled)
        )
        # An answer cut short by the time limit may be complete next time.
        keep = isinstance(found, Attention) or not found.note
        with _lock:
            if keep:
                _answer_cache[key] = found
            while len(_answer_cache) > _CACHE_SIZE:
                _answer_cache.popitem(last=False)
    return found


def _load_run_model(trace: Trace, cancelled: threading.Event) -> LoadedModel:
    """Return the run's model, loaded with the weights settings of the run."""
    there = find_recorded_model(trace.model)
    if there is not None:
        return there
    settings = to_weights_request(trace, default_device(), assistant=False)
    weights = read_single_weights(settings, "attention")
    return ModelLoader(cancelled, ignore_event)(Source.parse(trace.model.id), weights)


def _compute_answer(
    trace: Trace,
    loaded: LoadedModel,
    method: str,
    decided: TargetToken,
    cancelled: threading.Event,
) -> Attention | Attribution:
    size = float(len(decided.prompt_ids) + len(decided.before))
    line = wait_for_turn(cancelled, loaded, kind=(method, loaded.name), size=size)
    try:
        with name_model(trace), pin_models(loaded), line:
            media_inputs = load_media_inputs(trace, loaded)
            if method == ATTENTION:
                return compute_attention(loaded, decided, media_inputs)
            if method == GRADIENT:
                return compute_gradient_times_input(loaded, decided, media_inputs)
            return compute_leave_one_out(loaded, decided, media_inputs, cancelled)
    except torch.OutOfMemoryError:
        raise EngineError(
            "There is not enough memory for this question; ask about an earlier step."
        ) from None


def _cache_key(trace: Trace, loaded: LoadedModel, method: str, decided: TargetToken) -> str:
    """Cache key: the identity of the model object (names are not unique) and everything it read."""
    media = [one.sha256 for one in trace.media]
    parts = (loaded.order, method, decided.prompt_ids, decided.before)
    text = json.dumps([*parts, decided.token_id, media])
    return hashlib.sha256(text.encode()).hexdigest()
