"""Builds a dial map: checks the request, takes turns in the queue, and yields the map as it grows."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from engine.analysis.captured_loop import capture_loop
from engine.analysis.dial_map.decisions import Decider
from engine.analysis.dial_map.dials import (
    DIALS,
    Ticks,
    processor_name,
    read_ticks,
    unproven_reason,
)
from engine.analysis.dial_map.mapper import Leaf, Mapper
from engine.analysis.dial_map.passes import BatchedPasses, SinglePasses
from engine.declare.config import config_to_dict
from engine.declare.params import params_of
from engine.declare.slider import slider_bounds
from engine.errors import Cancelled, DecodeError, ModelError, ParameterError
from engine.loops.recorder import round_decimals
from engine.loops.tolerance import has_known_tolerance
from engine.messages import Message
from engine.models import slots
from engine.models.loading import LoadedModel, pin_models
from engine.models.text import decode_ids
from engine.one_shot_thread import run_in_thread
from engine.processors import FILTERS, SAMPLING
from engine.processors.thinking_budget import SWITCHES
from engine.run.caller_objects import describe_caller_objects
from engine.run.preparation import ModelLoader, Prepared, parse_models, prepare
from engine.run.request import CheckedRequest, DecodeRequest, check_request, fit_to_model
from engine.run.scheduler import EventCallback, ignore_event, wait_for_turn, wait_until_idle
from engine.run.stop_criterion import time_limit_error
from engine.settings import SETTINGS
from engine.statistics.text_divergence import common_prefix_length
from engine.strategies.sampling import SamplingConfig
from engine.timing_noise import work_time
from engine.trace.dial_map import DialInterval, DialMap

MAX_TOKENS = 64
"""Most tokens of a text of a map; longer texts are mapped up to there."""
MAX_TEXTS = 256
_SLIDER_TEXTS = 96
"""Nobody can distinguish more stretches on a slider."""


@dataclasses.dataclass(frozen=True)
class DialPlan:
    """What a map is about; ``second`` is another dial with its values, one for each row of texts."""

    run: Prepared
    dial: str
    low: float
    high: float
    ticks: Ticks
    reason: str
    second: str = ""
    values: tuple[float, ...] = ()


def map_dial(
    request: DecodeRequest,
    dial: str,
    low: float,
    high: float,
    *,
    stops: Sequence[float] | None = None,
    max_texts: int = MAX_TEXTS,
    cancelled: threading.Event | None = None,
    tell: EventCallback = ignore_event,
    background: bool = False,
) -> Iterator[DialMap]:
    """Yield the map of a dial after each step: every text that the run writes from low to high.

    The other settings and the seed stay those of the request. Each interval equals a real run with
    any of its values, except within ``EDGE_WIDTH`` of an edge, where the run may write the text of
    the other side.

    Args:
        request: a request of the strategy ``sampling`` for one text.
        dial: one of ``DIALS``.
        low: lowest value.
        high: highest value.
        stops: the only values that matter, ascending; None for every float32, or for the stops of
            the slider where nothing is proven.
        max_texts: texts that are followed, the widest intervals first; 1 to MAX_TEXTS.
        cancelled: stops within one step when set; the last map is then incomplete.
        tell: receives Waiting and Loading events.
        background: wait before each step until nothing else is in the queue. Otherwise every step
            queues again, so that other runs get their turn in between.

    Raises:
        EngineError: the request has no map, in one sentence.
    """
    cancelled = cancelled or threading.Event()
    try:
        plan = plan_map(request, dial, low, high, stops, ModelLoader(cancelled, tell))
        if isinstance(max_texts, bool) or not 1 <= max_texts <= MAX_TEXTS:
            allowed = Message("it must be a whole number from 1 to {most}", most=MAX_TEXTS)
            raise ParameterError("max_texts", max_texts, allowed)
        mapper = create_mapper(plan, max_texts, cancelled)
        for seconds in advance_mapper(plan, mapper, tell, background=background):
            yield _to_map(plan, mapper, seconds)
    except Cancelled:
        return


def map_slider(
    request: DecodeRequest,
    dial: str,
    *,
    cancelled: threading.Event | None = None,
    background: bool = False,
) -> Iterator[DialMap]:
    """Yield the map of a dial over the range of its slider; see ``map_dial``."""
    kind: Any = params_of(SamplingConfig).get(dial)
    low, high = (0.0, 0.0) if kind is None else slider_bounds(kind) or (kind.minimum, kind.maximum)
    return map_dial(
        request,
        dial,
        low,
        high,
        max_texts=_SLIDER_TEXTS,
        cancelled=cancelled,
        background=background,
    )


def advance_mapper(
    plan: DialPlan, mapper: Mapper, tell: EventCallback, *, background: bool
) -> Iterator[float]:
    """Yield the seconds of computing so far after each step; each step waits in the queue.

    Raises:
        EngineError: a step failed, or the time limit for runs has passed.
    """
    loaded, seconds = plan.run.target, 0.0
    while not mapper.is_complete:
        if background:
            wait_until_idle(mapper.cancelled)
        size = float(len(mapper.passes.ids))
        kind = ("dial", loaded.name)
        line = wait_for_turn(mapper.cancelled, loaded, tell=tell, kind=kind, size=size)
        with pin_models(loaded), line:
            seconds += run_in_thread(partial(_advance, mapper))
        if seconds > SETTINGS.max_runtime_s:
            raise time_limit_error(SETTINGS.max_runtime_s)
        yield seconds


def _advance(mapper: Mapper) -> float:
    """Advance a map by a step; return its seconds without the pauses in which others computed."""
    began = work_time()
    mapper.advance()
    return work_time() - began


def plan_map(
    request: DecodeRequest,
    dial: object,
    low: object,
    high: object,
    stops: Sequence[float] | None,
    load: ModelLoader,
) -> DialPlan:
    """Return the checked and prepared request; the arguments are those of ``map_dial``.

    Raises:
        EngineError: the request has no map.
    """
    if request.strategy != "sampling":
        raise ParameterError("strategy", request.strategy, "a dial map needs sampling")
    if not isinstance(dial, str) or dial not in DIALS:
        choices = Message("it must be one of {choices}", choices=", ".join(DIALS))
        raise ParameterError("dial", dial, choices)
    checked = parse_models(check_request(request))
    refuse_settings(checked)
    reason = unproven_reason(dial, checked.config)
    ticks = read_ticks(dial, low, high, stops, proven=not reason)
    run = prepare(checked, load)
    _refuse_model(run)
    if (context := run.target.context_length) is not None and len(run.prompt_ids) >= context:
        raise ParameterError("prompt", len(run.prompt_ids), "the context leaves no tokens")
    values = ticks.stops or (float(str(low)), float(str(high)))
    return DialPlan(run, dial, values[0], values[-1], ticks, reason)


def refuse_settings(checked: CheckedRequest) -> None:
    """Refuse what a map cannot follow.

    Raises:
        ParameterError: names the setting.
    """
    config = checked.config
    refused = (
        (
            "num_return_sequences",
            config.num_return_sequences != 1,
            Message("a dial map has one sequence"),
        ),
        (
            "guidance_scale",
            config.guidance_scale not in (None, 1.0),
            Message("a dial map has no guidance"),
        ),
        ("stop_strings", config.stop_strings, Message("a dial map has no stop strings")),
        ("max_time", config.max_time is not None, Message("a dial map has no time limit")),
        (
            "structured_outputs",
            config.structured_outputs is not None,
            Message("a dial map has no grammar"),
        ),
        *(
            (name, getattr(config, name) is not None, Message("a dial map has no thinking budget"))
            for name in SWITCHES
        ),
        (
            "prefix_allowed_tokens_fn",
            config.prefix_allowed_tokens_fn is not None,
            Message("a dial map has no allowed continuations"),
        ),
    )
    for one in SAMPLING:
        if one.last and getattr(config, one.parameter) != one.off:
            # Its coin or its state would have to be followed along every text of the map.
            why = Message("a dial map has no {filter}", filter=one.title)
            raise ParameterError(one.parameter, getattr(config, one.parameter), why)
    for name, given, why in refused:
        if given:
            raise ParameterError(name, getattr(config, name), why)
    for name in describe_caller_objects(checked.request):
        raise ParameterError(
            name, getattr(checked.request, name), "a dial map has settings of transformers only"
        )
    if checked.media:
        raise DecodeError("A dial map is for text only, without a picture or a sound.")


def _refuse_model(run: Prepared) -> None:
    """Refuse a model on which the proof was not measured.

    Raises:
        ModelError: names the model.
    """
    loaded = run.target
    if loaded.model.config.is_encoder_decoder:
        raise ModelError(
            "{name} has an encoder, and a dial map needs a decoder-only model.", name=loaded.name
        )
    # Elsewhere a seed draws other noise, or a batched pass differs by more than was measured.
    if not slots.can_share_passes(loaded):
        raise ModelError(
            "{name} is not in float32 on a CPU here, and only there a dial map is exact.",
            name=loaded.name,
        )


def create_mapper(
    plan: DialPlan, max_texts: int, cancelled: threading.Event, length: int = MAX_TOKENS
) -> Mapper:
    """Return what grows the texts of a plan, before its first step; texts have at most ``length`` tokens."""
    run = plan.run
    dials = {plan.dial: (plan.low, plan.high)}
    if plan.second:
        dials[plan.second] = (min(plan.values), max(plan.values))
    # At its neutral value generate() leaves a filter out.
    active = {dial: _active_value(dial, *ends) for dial, ends in dials.items()}
    config = dataclasses.replace(run.config, **active)
    # A filter that is on may have texts that become ids only then.
    fitted = fit_to_model(dataclasses.replace(run.checked, config=config), run.target)
    forward, processors, _ = capture_loop(run, fitted.config)
    prompt = torch.tensor([run.prompt_ids])
    margin = None
    if has_known_tolerance(processors):
        with wait_for_turn(cancelled, run.target), torch.inference_mode():
            margin = run_in_thread(partial(slots.measure_margin, run.target))
    return Mapper(
        SinglePasses(forward, prompt) if margin is None else BatchedPasses(forward, prompt, margin),
        Decider(processors, tuple(dials)),
        plan.ticks,
        seed=run.request.seed,
        eos_token_ids=run.config.eos_token_id or run.target.eos_token_ids,
        length=min(length, run.config.max_new_tokens),
        max_new_tokens=run.config.max_new_tokens,
        max_texts=max_texts,
        decide_all=bool(plan.reason),
        cancelled=cancelled,
        second=plan.values,
    )


def _active_value(dial: str, low: float, high: float) -> Any:
    """Return a value of a dial at which generate() builds its filter."""
    if dial == "top_k":
        return max(1, int(high))
    off = FILTERS[processor_name(dial)].off
    middle, quarter = ((low + high) / 2, low + (high - low) / 4)
    return quarter if middle == off else middle


def _to_map(plan: DialPlan, mapper: Mapper, seconds: float) -> DialMap:
    run, loaded = plan.run, plan.run.target
    leaves = mapper.leaves
    pieces = loaded.pieces.of({i for leaf in leaves for i in leaf.ids} | set(run.prompt_ids))
    pairs = itertools.pairwise(leaf.ids for leaf in leaves)
    changes = [None, *(common_prefix_length(pair, (True, True))[0] for pair in pairs)]
    return DialMap(
        proven=not plan.reason,
        reason=plan.reason,
        intervals=tuple(
            _to_interval(plan.ticks, leaf, change, loaded)
            for leaf, change in zip(leaves, changes, strict=True)
        ),
        pieces=pieces,
        notes=format_notes(run, leaves),
        **map_facts(plan, mapper, seconds),
    )


def map_facts(plan: DialPlan, mapper: Mapper, seconds: float) -> dict[str, Any]:
    """Return the fields that a map of one dial and a map of two have in common."""
    run = plan.run
    return {
        "dial": plan.dial,
        "low": plan.low,
        "high": plan.high,
        "value": getattr(run.config, plan.dial),
        "stops": plan.ticks.stops,
        "model": run.target.info(),
        "seed": run.request.seed,
        "config": config_to_dict(run.config),
        "prompt_ids": tuple(run.prompt_ids),
        "steps": mapper.steps,
        "complete": mapper.is_complete,
        "forward_rows": mapper.passes.rows,
        "decisions": mapper.decider.count,
        "decided_alone": mapper.decided_alone,
        "seconds": round_decimals(seconds),
    }


def _to_interval(ticks: Ticks, leaf: Leaf, change: int | None, loaded: LoadedModel) -> DialInterval:
    tokenizer = loaded.tokenizer
    return DialInterval(
        low=ticks.value(leaf.first),
        high=ticks.value(leaf.last),
        token_ids=leaf.ids,
        ranks=leaf.ranks,
        logprobs=leaf.logprobs,
        text="" if tokenizer is None else decode_ids(tokenizer, leaf.ids),
        end=leaf.end,
        first_change=change,
        sure=ticks.is_wide(leaf.first, leaf.last),
    )


def format_notes(
    run: Prepared, leaves: Sequence[Leaf], length: int = MAX_TOKENS
) -> tuple[str, ...]:
    """Return what a reader must know of a map whose texts have at most ``length`` tokens."""
    notes = list(run.checked.notes)
    if run.config.max_new_tokens > length:
        notes.append(Message("The map shows the first {n} tokens of each text.", n=length))
    lost = sum(leaf.end == "not_followed" for leaf in leaves)
    if lost:
        notes.append(
            Message("{n} narrow stretches were not followed to the end of their text.", n=lost)
        )
    return tuple(notes)
