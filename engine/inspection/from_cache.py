"""Rebuild a step from cached logits, without a forward pass of the model."""

from __future__ import annotations

from engine.errors import EngineError
from engine.inspection.logits_cache import CACHED, CachedRun
from engine.inspection.rerun import ObservedPass, ReplayedStep, copy_processor
from engine.inspection.step_ref import step_ref_in_run
from engine.inspection.what_if import PassReplay, SettingsChange, apply_change
from engine.loops.next_token import next_token_loop
from engine.loops.prefix_constraint import fit_processors
from engine.loops.watermark import watermark_loop
from engine.run.preparation import prepare
from engine.run.request import check_request, request_from_trace
from engine.trace.records import Step

# In these loops a step depends only on its logits, its processors and the draw.
_REBUILDABLE_LOOPS = (next_token_loop, watermark_loop)


def rebuild_from_cache(run: CachedRun, step: Step) -> ReplayedStep | None:
    """Rebuild the step from cached logits; None if they are not enough.

    They are not enough for other loops, dropped logits, or a device that cannot draw the run's
    noise.

    Args:
        run: a cached run.
        step: one of its steps.
    """
    if run.strategy.loop not in _REBUILDABLE_LOOPS or run.source != CACHED or run.full:
        return None
    asked = step_ref_in_run(run, step.index)
    if not asked.passes:
        return None
    trace = run.trace
    try:
        repeated = PassReplay(apply_change(run, SettingsChange()))
        prepared = prepare(check_request(request_from_trace(trace, run.get_model())))
    except EngineError:
        return None
    if not repeated.is_draw_repeatable:
        return None
    one = asked.passes[-1]
    repeated.skip_to(one)
    here = one.to(repeated.device)
    scores, stages = here.logits, []
    processors = fit_processors(repeated.asked.processors, len(scores))
    before = tuple(copy_processor(processor) for processor in processors)
    for processor in processors:
        scores = processor(here.input_ids, scores)
        stages.append(scores)
    view = ObservedPass(here.logits, here.input_ids, before, tuple(stages))
    state = repeated.generator.get_state()
    return ReplayedStep(trace, step, prepared, (view,), asked.row, noise_state=state)
