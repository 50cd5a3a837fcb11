"""Sample one text for each of many seeds, in batches; row i equals a single run with seed i."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# torch does not say what Tensor.tolist() returns.
from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from engine.analysis.server_draws import draw_many_on_server
from engine.errors import Cancelled, DecodeError, ParameterError
from engine.live import is_on_server
from engine.live.plan import SAMPLER
from engine.loops.exponential_race import draw_coins, draw_noise
from engine.loops.forward import Forward
from engine.loops.recorder import round_decimals, run_processors
from engine.loops.rows import append_tokens, check_stopping
from engine.messages import Message
from engine.model_code import GENERATE, ModelCall, ModelWork
from engine.models.loading import LoadedModel, pin_models
from engine.models.model_types import GenerationConfig, Model, Processors, StoppingCriteria
from engine.models.model_views import copy_without_defaults
from engine.one_shot_thread import run_in_thread
from engine.run.generation import (
    generate_inputs,
    generation_config,
    processors_argument,
    stop_criteria,
    text_processors,
)
from engine.run.preparation import (
    ModelLoader,
    encode_prompt,
    fit_request,
    fit_total_lengths,
    parse_model,
)
from engine.run.request import CheckedRequest, DecodeRequest, check_request
from engine.run.run import build_rules, get_generate, prompt_arguments
from engine.run.scheduler import EventCallback, ignore_event, wait_for_turn
from engine.run.stop_criterion import StopCriterion, time_limit_error
from engine.run.ticket import Ticket
from engine.settings import SETTINGS
from engine.statistics.prefix_tree import DrawBatch, SampledText
from engine.timing_noise import work_time

MAX_DRAWS = 512
MAX_TOKENS = 64
BATCH_SIZE = 32


def draw_many(
    request: DecodeRequest,
    count: int,
    cancelled: threading.Event | None = None,
    tell: EventCallback = ignore_event,
) -> Iterator[DrawBatch]:
    """Sample `count` texts with the seeds seed, seed + 1, … and yield every finished batch.

    Args:
        request: of the strategy ``sampling``; its seed is the first. Its model may be behind an address.
        count: 2 to MAX_DRAWS.
        cancelled: stops within one step when set; the unfinished batch is discarded.
        tell: receives Waiting and Loading events. Every batch queues again, so that other runs get
            their turn in between.

    Raises:
        EngineError: the request is invalid, or the model cannot serve it.
    """
    cancelled = cancelled or threading.Event()
    if is_on_server(request):
        _check_request(_without_server(request), count)
        yield from draw_many_on_server(request, count, cancelled)
        return
    checked = _check_request(request, count)
    try:
        model = parse_model(request.model, checked.strategy.default_model)
        loaded = ModelLoader(cancelled, tell)(model, checked.weights[0])
    except Cancelled:
        return
    with ModelWork(loaded.name, checked.strategy.title):
        checked = fit_request(checked, loaded)
        checked, ids, inputs = encode_prompt(checked, loaded)
        checked = fit_total_lengths(checked, loaded, len(ids))
    context = loaded.context_length
    if context is not None and len(ids) + checked.config.max_new_tokens > context:
        allowed = Message("the context leaves {room} tokens", room=context - len(ids))
        raise ParameterError("max_new_tokens", checked.config.max_new_tokens, allowed)
    # Its deadline is set when the turn has come, so that waiting does not count.
    stop = StopCriterion(cancelled, math.inf)
    kind = ("draws", loaded.name)
    busy_s = 0.0
    for first in range(0, count, BATCH_SIZE):
        seeds = range(request.seed + first, request.seed + min(first + BATCH_SIZE, count))
        size = float(checked.config.max_new_tokens * len(seeds))
        try:
            line = wait_for_turn(cancelled, loaded, tell=tell, kind=kind, size=size)
            draw = partial(_draw_batch, checked, loaded, ids, inputs, list(seeds), stop)
            with pin_models(loaded):
                # Entered in the thread that computes, as the hooks that give way belong to it.
                draws, seconds = run_in_thread(partial(_draw_in_turn, line, draw, stop, busy_s))
            busy_s += seconds
        except Cancelled:
            return
        if cancelled.is_set():
            return
        if stop.expired:
            raise time_limit_error(SETTINGS.max_runtime_s)
        named = {i for draw in draws for i in draw.token_ids}
        pieces = loaded.pieces.of(named)
        yield DrawBatch(draws, tuple(ids), pieces, round_decimals(busy_s))


def _without_server(request: DecodeRequest) -> DecodeRequest:
    params = {name: value for name, value in request.params.items() if name != SAMPLER}
    return replace(request, model=None, params=params)


def _check_request(request: DecodeRequest, count: object) -> CheckedRequest:
    if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= MAX_DRAWS:
        raise ParameterError(
            "draws",
            count,
            Message("it must be a whole number from 2 to {most}", most=MAX_DRAWS),
        )
    if request.strategy != "sampling":
        raise ParameterError("strategy", request.strategy, "many draws need sampling")
    checked = check_request(request)
    if checked.config.max_new_tokens > MAX_TOKENS:
        raise ParameterError(
            "max_new_tokens",
            checked.config.max_new_tokens,
            Message("many draws take 1 to {most}", most=MAX_TOKENS),
        )
    if checked.config.num_return_sequences != 1:
        raise ParameterError(
            "num_return_sequences", checked.config.num_return_sequences, "every seed gives one text"
        )
    return checked


def _draw_in_turn(
    line: AbstractContextManager[Ticket],
    draw: Callable[[], tuple[SampledText, ...]],
    stop: StopCriterion,
    busy_s: float,
) -> tuple[tuple[SampledText, ...], float]:
    """Return a batch and the seconds of its turn without pauses; the earlier ones took ``busy_s``."""
    with line:
        started = work_time()
        stop.deadline = started + SETTINGS.max_runtime_s - busy_s
        return draw(), work_time() - started


def _draw_batch(
    checked: CheckedRequest,
    loaded: LoadedModel,
    ids: list[int],
    inputs: Mapping[str, torch.Tensor],
    seeds: list[int],
    stop: StopCriterion,
) -> tuple[SampledText, ...]:
    """Draw one batch through transformers' generate(), which prepares caches and processors."""
    strategy, config = checked.strategy, replace(checked.config, num_return_sequences=len(seeds))
    prompt = torch.tensor([ids], device=loaded.device)
    kept: list[list[float | None]] = []

    def loop(*args: Any, **kwargs: Any) -> torch.Tensor:
        return _draw_rows(*args, seeds=seeds, kept=kept, **kwargs)

    select = strategy.generate_kwargs(config)
    own = text_processors(config, loaded, ids, checked.request.parent)
    rules = build_rules(checked, config, loaded, ids, own)
    loaded.forget_passes()
    with ModelCall(GENERATE, loaded.name):
        returned = get_generate(loaded)(
            copy_without_defaults(loaded.model),
            generation_config=generation_config(config, select, loaded),
            custom_generate=loop,
            stopping_criteria=[stop, *stop_criteria(config, loaded)],
            **processors_argument(rules, config, select, loaded.eos_token_ids),
            **prompt_arguments(loaded, prompt, inputs),
            **generate_inputs(config, loaded, len(seeds), len(ids)),
        )
    start = 1 if loaded.is_encoder_decoder else len(ids)
    rows = returned[:, start:].tolist()
    steps = list(zip(*kept, strict=True))
    # A row has None from its end on; the tokens there are padding.
    ends = [sum(value is not None for value in row) for row in steps]
    return tuple(
        SampledText(seed, tuple(row[:end]), tuple(round_decimals(v) for v in values[:end]))
        for seed, row, values, end in zip(seeds, rows, steps, ends, strict=True)
    )


def _draw_rows(
    model: Model,
    input_ids: torch.Tensor,
    logits_processor: Processors,
    stopping_criteria: StoppingCriteria,
    generation_config: GenerationConfig,
    *,
    seeds: list[int],
    kept: list[list[float | None]],
    **model_kwargs: Any,
) -> torch.Tensor:
    """Sample every row with a separate generator, as the sampling loop does for a single row.

    Returns:
        (batch, length + new) ids, finished rows padded. Appends one list per step to `kept`: each
        row's log-probability of its token, None for a finished row.
    """
    forward = Forward(model, generation_config, model_kwargs)
    device = input_ids.device
    # One generator for the whole batch would make every text depend on the number of draws.
    generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
    unfinished = torch.ones(len(seeds), dtype=torch.long, device=device)
    while unfinished.max() != 0:
        logits = forward.last_logits(forward(input_ids), device)
        draw_coins(logits_processor, logits, generators)
        scores, _ = run_processors(logits_processor, input_ids, logits)
        probs = torch.softmax(scores, dim=-1)
        # (vocab,) takes the same numbers from a generator as the (1, vocab) of a run alone.
        noise = torch.stack(
            [draw_noise(row, own) for row, own in zip(probs, generators, strict=True)]
        )
        # torch.multinomial(p, 1) is argmax(p / e) with exponential noise e.
        tokens = (probs / noise).argmax(-1)
        chosen: list[float] = (
            torch.log_softmax(scores, dim=-1).gather(-1, tokens[:, None])[:, 0].tolist()
        )
        # Only NaN differs from itself.
        if any(value != value for value in chosen):
            raise DecodeError(
                "The model's logits are not finite at token {length}.", length=len(kept)
            )
        active: list[int] = unfinished.tolist()
        kept.append([v if on else None for v, on in zip(chosen, active, strict=True)])
        input_ids = append_tokens(input_ids, tokens, unfinished, generation_config)
        unfinished = unfinished & ~check_stopping(stopping_criteria, input_ids)
    return input_ids
