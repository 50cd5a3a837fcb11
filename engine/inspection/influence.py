"""The influence of earlier positions on a step's token. The newest answers stay cached."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from dataclasses import dataclass

import torch

from engine.errors import EngineError, ParameterError
from engine.inspection.attention import Attention, attention_of
from engine.inspection.attribution import Attribution, gradient_of
from engine.inspection.influence_methods import ATTENTION, GRADIENT, METHODS
from engine.inspection.leave_one_out import leave_one_out_of
from engine.inspection.logits_cache import KeptRun
from engine.inspection.target_token import Decided, decided_at
from engine.media import media_of
from engine.models.context_check import check_fits
from engine.models.devices import default_device
from engine.models.loading import LoadedModel, as_recorded, pinned
from engine.models.weights import asked_for
from engine.one_shot_thread import aside
from engine.run.media_request import inputs_of
from engine.run.preparation import Models
from engine.run.scheduler import nobody, running
from engine.run.weights import held_alone
from engine.trace.records import Trace

_READY = 12
_ready: OrderedDict[str, Attention | Attribution] = OrderedDict()
_lock = threading.Lock()


@dataclass(frozen=True)
class Look:
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


def looked(
    asked: KeptRun | Trace,
    look: Look,
    cancelled: threading.Event | None = None,
    model: LoadedModel | None = None,
) -> Attention | Attribution:
    """Return the attention or attribution of a step's token.

    It uses the run's own model, loaded with the run's weights settings if necessary, and waits in
    the run queue. Recent answers come from the cache.

    Args:
        asked: a cached run, or a trace; steps after the one in question may be missing.
        look: see ``Look``.
        cancelled: stops waiting and computing when set.
        model: a LoadedModel that replaces the one the trace names.

    Raises:
        Cancelled: ``cancelled`` was set.
        ParameterError: the step, node, token or method does not exist.
        EngineError: the model cannot be loaded or does not support the method, the run's media are
            unavailable, or the queue is full.
    """
    if look.method not in METHODS:
        raise ParameterError("method", look.method, f"it must be one of {', '.join(METHODS)}")
    trace = asked.trace if isinstance(asked, KeptRun) else asked
    decided = decided_at(trace, look.step, node_id=look.node_id, at=look.at)
    media_of(trace)
    cancelled = cancelled or threading.Event()
    own = asked.loaded() if isinstance(asked, KeptRun) else None
    loaded = model or own or _model_of(trace, cancelled)
    ids = (*decided.prompt_ids, *decided.before, decided.token_id)
    check_fits(loaded, ids, len(ids) - 1)
    key = _key(trace, loaded, look.method, decided)
    with _lock:
        found = _ready.get(key)
    if found is None:
        # OpenMP keeps workers for every thread that ever computed; idle ones slow small models.
        found = aside(lambda: _computed(trace, loaded, look.method, decided, cancelled))
        # An answer cut short by the time limit may be complete next time.
        keep = isinstance(found, Attention) or not found.note
        with _lock:
            if keep:
                _ready[key] = found
            while len(_ready) > _READY:
                _ready.popitem(last=False)
    return found


def _model_of(trace: Trace, cancelled: threading.Event) -> LoadedModel:
    """Return the run's model, loaded with the weights settings of the run."""
    there = as_recorded(trace.model)
    if there is not None:
        return there
    said = asked_for(trace, default_device(), assistant=False)
    held = held_alone(said, "attention")
    return Models(cancelled, nobody)(trace.model.id, weights=held)


def _computed(
    trace: Trace,
    loaded: LoadedModel,
    method: str,
    decided: Decided,
    cancelled: threading.Event,
) -> Attention | Attribution:
    size = float(len(decided.prompt_ids) + len(decided.before))
    line = running(cancelled, loaded, kind=(method, loaded.name), size=size)
    try:
        with pinned(loaded), line:
            media_inputs = inputs_of(trace, loaded)
            if method == ATTENTION:
                return attention_of(loaded, decided, media_inputs)
            if method == GRADIENT:
                return gradient_of(loaded, decided, media_inputs)
            return leave_one_out_of(loaded, decided, media_inputs, cancelled)
    except torch.OutOfMemoryError:
        raise EngineError(
            "There is not enough memory for this question; ask about an earlier step."
        ) from None


def _key(trace: Trace, loaded: LoadedModel, method: str, decided: Decided) -> str:
    """Cache key: the identity of the model object (names are not unique) and everything it read."""
    media = [one.sha256 for one in trace.media]
    known = (loaded.order, method, decided.prompt_ids, decided.before)
    told = json.dumps([*known, decided.token_id, media])
    return hashlib.sha256(told.encode()).hexdigest()
