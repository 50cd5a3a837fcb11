"""Runs with drafts in a line, to compare the passes of a draft tree with."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import torch

from engine.loops.drafting.assistant import AssistantDrafter
from engine.loops.drafting.assisted import assisted_loop
from engine.loops.drafting.drafter import RunContext
from engine.loops.drafting.lossless_check import is_interrupted, raise_if_stopped
from engine.loops.drafting.round_record import AfterRun
from engine.loops.forward import with_empty_cache
from engine.loops.optional_measurements import OptionalMeasurements
from engine.loops.recorder import Recorder
from engine.models.model_types import Model
from engine.trace.details import DraftDetail, LineDraft
from engine.trace.records import Step


def compare_with_lines(report: AfterRun, model: Model, lengths: Sequence[int]) -> AfterRun:
    """Return a hook that adds runs with drafts in a line to the report on a finished run.

    Args:
        report: the hook that makes the report.
        model: the draft model.
        lengths: guesses in a draft, one run each.
    """

    def after(
        additions: OptionalMeasurements,
        context: RunContext,
        prepared: dict[str, Any],
        ids: torch.Tensor,
        step: Step,
    ) -> Step:
        step = report(additions, context, prepared, ids, step)
        detail = step.detail
        if not isinstance(detail, DraftDetail) or detail.report is None or is_interrupted(context):
            return step
        lines = additions.measure(
            "The comparison with drafts in a line",
            lambda: tuple(
                _measure_line(context, prepared, model, length, additions) for length in lengths
            ),
            (),
        )
        told = dataclasses.replace(detail.report, lines=lines)
        return dataclasses.replace(step, detail=dataclasses.replace(detail, report=told))

    return after


def _measure_line(
    context: RunContext,
    prepared: dict[str, Any],
    model: Model,
    length: int,
    additions: OptionalMeasurements,
) -> LineDraft:
    """Decode the prompt again with drafts of ``length`` guesses, from the same seed.

    Raises:
        MeasurementStopped: the run was stopped.
    """
    prompt, most = context.input_ids, context.max_length - context.input_ids.shape[1]
    generator = torch.Generator(prompt.device).manual_seed(context.generator.initial_seed())
    settings = copy.copy(context.generation_config)
    settings.num_assistant_tokens, settings.num_assistant_tokens_schedule = length, "constant"
    settings.assistant_confidence_threshold = 0.0
    steps = assisted_loop(
        context.model,
        prompt,
        context.processors,
        context.stopping,
        settings,
        recorder=Recorder(1),
        generator=generator,
        make_drafter=lambda run: AssistantDrafter(run, model),
        **with_empty_cache(context.model, prepared),
    )
    tokens = passes = drafts = 0
    for step in steps:
        tokens, passes = tokens + len(step.emit), passes + step.forward_passes
        drafts += step.detail.draft_forwards if isinstance(step.detail, DraftDetail) else 0
        additions.progress(tokens, most, "tokens with drafts in a line, to compare with")
        raise_if_stopped(context, tokens, most, "tokens")
    return LineDraft(length, tokens, passes, drafts)
