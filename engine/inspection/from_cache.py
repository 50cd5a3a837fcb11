"""Rebuild a step from cached logits, without a forward pass of the model."""

from __future__ import annotations

from engine.errors import EngineError
from engine.inspection.logits_cache import KEPT, KeptRun
from engine.inspection.rerun import Moment, View, as_it_is
from engine.inspection.step_ref import at
from engine.inspection.what_if import Change, Repeated, ask
from engine.loops.next_token import next_token_loop
from engine.loops.rows import for_rows
from engine.loops.watermark import watermark_loop
from engine.run.preparation import prepare
from engine.run.request import check, request_of
from engine.trace.records import Step

# In these loops a step depends only on its logits, its processors and the draw.
_LOOPS = (next_token_loop, watermark_loop)


def at_hand(run: KeptRun, step: Step) -> Moment | None:
    """Rebuild the step from cached logits; None if they are not enough.

    They are not enough for other loops, dropped logits, or a device that cannot draw the run's
    noise.

    Args:
        run: a cached run.
        step: one of its steps.
    """
    if run.strategy.loop not in _LOOPS or run.source != KEPT or run.full:
        return None
    asked = at(run, step.index)
    if not asked.passes:
        return None
    trace = run.trace
    try:
        repeated = Repeated(ask(run, Change()))
        prepared = prepare(check(request_of(trace, run.loaded())))
    except EngineError:
        return None
    if not repeated.same_luck:
        return None
    one = asked.passes[-1]
    repeated.skip_to(one)
    here = one.to(repeated.device)
    scores, stages = here.logits, []
    processors = for_rows(repeated.asked.processors, len(scores))
    before = tuple(as_it_is(processor) for processor in processors)
    for processor in processors:
        scores = processor(here.input_ids, scores)
        stages.append(scores)
    view = View(here.logits, here.input_ids, before, tuple(stages))
    state = repeated.generator.get_state()
    return Moment(trace, step, prepared, (view,), asked.row, noise_state=state)
