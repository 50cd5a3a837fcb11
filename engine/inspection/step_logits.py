"""The logits that decided a step, for every question about it.

``find_logits`` gives the logits: cached (``logits_cache``), or of one pass over the text if the
text alone decides them (``trace_logits``). ``find_replayed_step`` gives also processors, noise and
draft: rebuilt from cached logits, or by running up to the step again (``rerun``). Where neither is
possible, both fall back to the recorded candidates.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from engine.errors import EngineError
from engine.inspection.logits_cache import CACHED, CachedRun
from engine.inspection.rerun import (
    CUSTOM_METHOD_REFUSAL,
    FILL_REFUSAL,
    ObservedPass,
    ReplayedStep,
    copy_processor,
    replay_to_step,
)
from engine.inspection.step_ref import StepRef, step_ref_in_run
from engine.inspection.trace_logits import run_from_trace, trace_key
from engine.inspection.what_if import PassReplay, SettingsChange, apply_change
from engine.loops.next_token import next_token_loop
from engine.loops.recorder import Recorder
from engine.loops.watermark import watermark_loop
from engine.models.loading import LoadedModel
from engine.run.preparation import prepare
from engine.run.request import check_request, request_from_trace
from engine.trace.filling import FillDetail
from engine.trace.records import Step, Trace, check_step_index

if TYPE_CHECKING:
    from engine.run.weights import RequestedModel

RECOMPUTE_HINT = "Recompute this step for an exact answer."
# In these loops a step depends only on its logits, its processors and the draw.
_REBUILDABLE_LOOPS = (next_token_loop, watermark_loop)
_CACHE_SIZE = 8
_replayed_steps: OrderedDict[str, ReplayedStep] = OrderedDict()
_lock = threading.Lock()


class RunNotCachedError(EngineError):
    """The run is not cached; a question with its trace is still possible."""

    code = "forgotten"


def find_logits(run: CachedRun | Trace | None, step: object) -> StepRef:
    """Return a step with the logits that its first processor received.

    Args:
        run: a cached run, or a trace. A trace's logits are recomputed if its model is in memory
            and its strategy allows it; otherwise only its recorded candidates are known.
        step: index of the step, from 0.

    Raises:
        ParameterError: the step does not exist.
        RunNotCachedError: there is no run, or its logits were dropped.
        EngineError: the trace's strategy is unknown, or the model is busy.
    """
    if isinstance(run, Trace):
        return step_ref_in_run(run_from_trace(run, step), step)
    if run is None or run.full:
        raise RunNotCachedError("The server no longer stores the logits of this run.")
    return step_ref_in_run(run, step)


def find_replayed_step(
    run: CachedRun | Trace,
    index: int,
    model: LoadedModel | None = None,
    assistant: RequestedModel = None,
    *,
    quick: bool = False,
) -> ReplayedStep:
    """Return a step with everything that decided it: logits, processors, noise and draft.

    Args:
        run: a cached run, or a trace; steps after the one in question may be missing.
        index: of the step, from 0.
        model: a LoadedModel that replaces the one the trace names.
        assistant: a LoadedModel that replaces the trace's draft model.
        quick: return the recording alone if the step would need a rerun.

    Raises:
        ParameterError: the step does not exist.
    """
    trace = run.trace if isinstance(run, CachedRun) else run
    check_step_index(trace.steps, index)
    # Without later steps: nothing depends on them, and a run that goes on gets more.
    key = trace_key(dataclasses.replace(trace, steps=trace.steps[: index + 1]))
    step = trace.steps[index]
    if isinstance(step.detail, FillDetail):
        return ReplayedStep(trace, step, refused=FILL_REFUSAL)
    with _lock:
        found = _replayed_steps.get(key)
    if found is None and isinstance(run, CachedRun):
        found = _rebuild_step(run, step)
    if found is None and quick:
        why = RECOMPUTE_HINT if trace.method is None else CUSTOM_METHOD_REFUSAL
        return ReplayedStep(trace, step, refused=why)
    if found is None:
        # Outside the lock: a rerun takes seconds, and other questions go on meanwhile.
        found = replay_to_step(trace, index, model, assistant)
    if found.refused:
        return found
    with _lock:
        _replayed_steps[key] = found
        while len(_replayed_steps) > _CACHE_SIZE:
            _replayed_steps.popitem(last=False)
    return found


def _rebuild_step(run: CachedRun, step: Step) -> ReplayedStep | None:
    """Rebuild a step from cached logits, without a forward pass; None if they are not enough.

    They are not enough for other loops, dropped logits, or a device that cannot draw the run's
    noise.
    """
    if run.strategy.loop not in _REBUILDABLE_LOOPS or run.source != CACHED or run.full:
        return None
    step_ref = step_ref_in_run(run, step.index)
    if not step_ref.passes:
        return None
    trace = run.trace
    try:
        repeated = PassReplay(apply_change(run, SettingsChange()))
        prepared = prepare(check_request(request_from_trace(trace, run.get_model())))
    except EngineError:
        return None
    if not repeated.is_draw_repeatable:
        return None
    one = step_ref.passes[-1]
    repeated.skip_to(one)
    here = one.to(repeated.device)
    processors = repeated.prepare_processors(here)
    before = tuple(copy_processor(processor) for processor in processors)
    _, stages = Recorder().apply_unobserved(here.logits, here.input_ids, processors)
    scores = tuple(scores for _, scores in stages)
    view = ObservedPass(here.logits, here.input_ids, before, scores)
    # Earlier draws have been repeated, so this is the state before the step's own draw.
    state = repeated.generator.get_state()
    return ReplayedStep(trace, step, prepared, (view,), step_ref.row, noise_state=state)
