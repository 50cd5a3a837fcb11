"""The logits of a run known by its trace: recomputed from its text, or from its candidates."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from typing import Any

import torch

from engine.declare.params import build_config
from engine.errors import EngineError, ParameterError
from engine.inspection.logits_cache import LOGITS_CACHE, RECOMPUTED, RECORDED, CachedPass, CachedRun
from engine.inspection.processors import build_constraints
from engine.loops import logit_lens as layer_tools
from engine.loops.contrastive import contrastive_loop
from engine.loops.dola import (
    contrast_layers,
    dola_loop,
    keep_allowed,
    model_candidate_layers,
    select_premature_layer,
)
from engine.loops.next_token import next_token_loop
from engine.loops.prefix_constraint import mask_by_constraints
from engine.loops.teacher_forced import TeacherForcedPass, is_causal, run_teacher_forced
from engine.loops.watermark import watermark_loop
from engine.media import is_media_available
from engine.models.loading import LoadedModel, find_recorded_model, pin_models
from engine.run.media_request import load_media_inputs
from engine.run.scheduler import wait_for_turn
from engine.settings import SETTINGS
from engine.strategies import STRATEGIES
from engine.strategies.base import Strategy
from engine.trace.records import Step, Trace, replay_ids
from engine.trace.served_checks import require_local_run

ONE_TOKEN_LOOPS = (next_token_loop, watermark_loop, dola_loop)
"""Loops in which each pass decides one token per row from its scores, by argmax or a draw."""
_RECOMPUTABLE_LOOPS = (*ONE_TOKEN_LOOPS, contrastive_loop)
"""Loops whose first processor's input at every step follows from one pass over the text."""
_FLOAT_BYTES = 4
_CHUNK = 8
"""Positions whose layers are projected together: each has a distribution per layer."""


def run_from_trace(
    trace: Trace,
    step: object = None,
    cancelled: threading.Event | None = None,
    model: LoadedModel | None = None,
) -> CachedRun:
    """Return a cached or recomputed run for a trace.

    Args:
        trace: outputs may be missing. Candidates are needed only for the step, and only if the
            model is not in memory.
        step: the step in question; a run too large to recompute whole gets only this one.
        cancelled: stops waiting for the model when set.
        model: the run's model; None looks for it among those in memory.

    Raises:
        EngineError: its strategy or its settings are unknown here.
    """
    require_local_run(trace)
    key = trace_key(trace)
    known = LOGITS_CACHE.get(key)
    if known is not None and not known.full:
        return known
    strategy = STRATEGIES.get(trace.strategy)
    if strategy is None:
        raise EngineError(
            "Nothing is known here of the strategy {strategy}.", strategy=repr(trace.strategy[:40])
        )
    run = CachedRun(strategy, config_from_trace(trace, strategy), trace, list(trace.steps))
    loaded = model or find_recorded_model(trace.model)
    if loaded is None or not _can_recompute(run, loaded):
        return _fill_from_record(run)
    with (
        pin_models(loaded),
        wait_for_turn(cancelled or threading.Event(), loaded),
        torch.inference_mode(),
    ):
        # One pass can replace all steps only if no position sees the tokens after it.
        if not is_causal(loaded):
            return _fill_from_record(run)
        whole = _recompute_passes(run, loaded, step)
    if whole:
        LOGITS_CACHE.put(key, run)
    return run


def config_from_trace(trace: Trace, strategy: Strategy) -> Any:
    """Return a recorded config as the strategy's config object.

    Raises:
        EngineError: it has a function, which no file can hold, or a value that is not valid.
    """
    if any(isinstance(v, str) and v.startswith("<callable") for v in trace.config.values()):
        raise EngineError(
            "A Python function decided what this run may write, and the recording does not "
            "contain it."
        )
    return build_config(strategy.config, trace.config, strategy.name)


def trace_key(trace: Trace) -> str:
    """Cache key of a trace: everything that the logits and draws of its steps depend on."""
    steps = [(step.keep, step.emit, step.sequence) for step in trace.steps]
    media = [one.sha256 for one in trace.media]
    models = (trace.model, trace.assistant)
    run = (trace.strategy, trace.config, trace.seed, trace.prompt_ids, media, trace.speech)
    # Descriptions of models are dataclasses, written here as their text.
    known = json.dumps((models, run, steps), default=str)
    return "trace-" + hashlib.sha256(known.encode()).hexdigest()


def _can_recompute(run: CachedRun, loaded: LoadedModel) -> bool:
    ids = (*run.header.prompt_ids, *(i for step in run.steps for i in step.emit))
    own = run.header.model
    return (
        run.strategy.loop in _RECOMPUTABLE_LOOPS
        and is_media_available(run.header)
        # The passes are numbered and filled by one token per step.
        and all(len(step.emit) == 1 for step in run.steps)
        and loaded.vocab_size == own.vocab_size
        and loaded.is_encoder_decoder == own.is_encoder_decoder
        and max(ids, default=0) < loaded.vocab_size
    )


def _recompute_passes(run: CachedRun, loaded: LoadedModel, step: object) -> bool:
    """Fill a run's passes; return whether all of them are filled."""
    sequences = sorted({s.sequence for s in run.steps})
    texts = [
        replay_ids(tuple(s for s in run.steps if s.sequence == sequence)) for sequence in sequences
    ]
    number_of = _pass_numbers(run)
    run.source, run.passes_of_step = RECOMPUTED, [range(n, n + 1) for n in number_of]
    rows = 1 if run.strategy.one_by_one else len(sequences)
    # DoLa's passes store the contrast besides the logits.
    kinds = 2 if run.strategy.loop is dola_loop else 1
    size = (max(number_of) + 1) * rows * loaded.vocab_size * _FLOAT_BYTES * kinds
    whole = size <= SETTINGS.max_kept_run_bytes
    steps = run.steps if whole else [run.steps[step]] if isinstance(step, int) else []
    run.passes = [None] * (max(number_of) + 1)
    for sequence, text in zip(sequences, texts, strict=True):
        own = [s for s in steps if s.sequence == sequence]
        if own:
            # For a run too large, only the text up to the step: its end gives the step's logits.
            _fill_passes(run, loaded, own, text if whole else text[: own[0].keep + 1], number_of)
    return whole


def _pass_numbers(run: CachedRun) -> list[int]:
    """Return the pass number of every step; sequences of a batch share theirs."""
    if run.strategy.one_by_one:
        return list(range(len(run.steps)))
    # Every pass adds one token to every row, so a pass is counted by the tokens before it.
    return [step.keep for step in run.steps]


def _fill_passes(
    run: CachedRun,
    loaded: LoadedModel,
    steps: Sequence[Step],
    text: list[int],
    number_of: list[int],
) -> None:
    layered = run.strategy.loop is dola_loop
    media = load_media_inputs(run.header, loaded)
    prompt = run.header.prompt_ids
    # One pass for all steps: sums round otherwise than token by token, so scans re-decide each step.
    reading = run_teacher_forced(loaded, prompt, text, states=layered, media_inputs=media)
    # generate() gives its processors float32, whatever dtype the model has.
    logits = reading.logits.to(torch.float32)
    contrast = _layer_contrast(run, loaded, reading, logits, text) if layered else None
    logits, contrast = logits.cpu(), None if contrast is None else contrast.cpu()
    rows = 1 if run.strategy.one_by_one else 1 + max(step.sequence for step in run.steps)
    for step in steps:
        number, row, length = (
            number_of[step.index],
            run.batch_row(step),
            len(reading.before) + step.keep,
        )
        # One pass serves all sequences of a batch: the rows of the others are filled by their own call.
        there = run.passes[number] or CachedPass(
            number,
            torch.zeros(rows, logits.shape[-1]),
            torch.zeros(rows, length, dtype=torch.long),
            None if contrast is None else torch.zeros(rows, logits.shape[-1]),
        )
        there.logits[row] = logits[step.keep]
        there.input_ids[row] = torch.tensor([*reading.before, *text[: step.keep]])
        if contrast is not None and there.contrast is not None:
            there.contrast[row] = contrast[step.keep]
        run.passes[number] = there


def _layer_contrast(
    run: CachedRun,
    loaded: LoadedModel,
    reading: TeacherForcedPass,
    logits: torch.Tensor,
    text: list[int],
) -> torch.Tensor:
    """Return (new, vocab) DoLa contrast at every position, a few positions at a time."""
    candidates = model_candidate_layers(loaded.model, run.config.dola_layers)
    if not candidates:
        raise ParameterError("dola_layers", run.config.dola_layers, "it leaves no layer")
    constraints = build_constraints(run, loaded)
    parts = []
    for start in range(0, len(logits), _CHUNK):
        places = slice(start, start + _CHUNK)
        states = [state[places, None] for state in reading.states]
        layers = layer_tools.project_layers(loaded.model, states, logits[places])
        masks = [
            mask_by_constraints(
                constraints,
                torch.tensor([[*reading.before, *text[:keep]]], device=logits.device),
                logits[keep : keep + 1],
            )
            for keep in range(len(logits))[places]
        ]
        allowed = torch.cat([mask for mask in masks if mask is not None]) if constraints else None
        premature = select_premature_layer(layers.divergence, candidates)
        parts.append(contrast_layers(keep_allowed(layers, allowed), premature))
    return torch.cat(parts)


def _fill_from_record(run: CachedRun) -> CachedRun:
    """Fill a run's passes from the recorded candidates alone."""
    run.source = RECORDED
    number_of = _pass_numbers(run)
    run.passes_of_step = [range(n, n + 1) for n in number_of]
    if run.strategy.loop not in ONE_TOKEN_LOOPS:
        return run
    rows = 1 if run.strategy.one_by_one else 1 + max((s.sequence for s in run.steps), default=0)
    # 0 is a placeholder for the decoder's start token, which no trace records.
    before = (0,) if run.header.model.is_encoder_decoder else run.header.prompt_ids
    run.passes = [None] * (max(number_of, default=-1) + 1)
    texts: dict[int, list[int]] = {}
    for step in run.steps:
        text = texts.setdefault(step.sequence, [])
        if step.candidates and run.strategy.loop is not dola_loop:
            ids = [*before, *text[: step.keep]]
            _add_candidates(run, step, number_of[step.index], rows, ids)
        text[step.keep :] = step.emit
    return run


def _add_candidates(run: CachedRun, step: Step, number: int, rows: int, ids: list[int]) -> None:
    vocab, row = run.header.model.vocab_size, run.batch_row(step)
    there = run.passes[number] or CachedPass(
        number,
        torch.full((rows, vocab), -torch.inf),
        torch.zeros(rows, len(ids), dtype=torch.long),
    )
    for candidate in step.candidates:
        if candidate.token_id < vocab:
            # The recorded log-probability plus logsumexp is the logit.
            there.logits[row, candidate.token_id] = candidate.raw_logprob + (step.logsumexp or 0.0)
    there.input_ids[row] = torch.tensor(ids)
    run.passes[number] = there
