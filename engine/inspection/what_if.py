"""What-if analysis: a recorded step under changed settings, without running the model.

transformers' own processors run over the stored logits. The draw repeats the run's noise: the same
seed draws once per pass, in the same shape and on the same device. Until the first changed token
the result equals that of a real run.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import torch
import transformers

from engine.errors import Cancelled, DecodeError, EngineError, ParameterError
from engine.inspection.logits_cache import CACHED, RECORDED, CachedPass, CachedRun
from engine.inspection.processors import (
    OFF_VALUES,
    build_changed_config,
    build_processors,
    processor_device,
)
from engine.inspection.step_ref import StepRef, name_model, step_ref_in_run
from engine.inspection.trace_logits import ONE_TOKEN_LOOPS
from engine.loops.dola import LayerContrast, dola_loop
from engine.loops.exponential_race import choose_tokens, draw_coins, draw_noise
from engine.loops.prefix_constraint import CONSTRAINTS, fit_processors
from engine.loops.recorder import Observation, Recorder, display_name
from engine.messages import Message
from engine.processors.scores import IMPOSSIBLE_SCORE
from engine.settings import SETTINGS
from engine.timing_noise import work_time
from engine.trace.records import Step

if TYPE_CHECKING:
    from engine.strategies.base import Strategy

_MAX_NAMES = 64
"""Maximum number of names in a request."""


@dataclass(frozen=True)
class SettingsChange:
    """Changed settings for a run.

    Attributes:
        params: names and raw values; parameters not named keep their values.
        off: display names of processors that are switched off.
        order: display names of processors in a new order. They share their present slots;
            processors not named keep theirs.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    off: Sequence[str] = ()
    order: Sequence[str] = ()


@dataclass(frozen=True)
class ChangedRun:
    """A run with changed settings, validated and ready for any of its steps.

    Attributes:
        run: the run.
        change: the requested change.
        config: the strategy's config with the changed parameters.
        processors: active processors in running order.
        all: display names of all processors, switched-off ones included.
        sample: whether tokens are sampled.
    """

    run: CachedRun
    change: SettingsChange
    config: Any
    processors: tuple[Any, ...]
    all: tuple[str, ...]
    sample: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Display names of the active processors."""
        return tuple(display_name(one) for one in self.processors)


@dataclass(frozen=True)
class FirstChange:
    """The first step of a run whose token would change."""

    step: int
    token_id: int
    recorded: int


@dataclass(frozen=True)
class ScanResult:
    """The result of a search through a run for its first change.

    Attributes:
        first: the first changed step; None if no examined step changes.
        looked: number of examined steps.
        unsure: examined steps that are left out. Their own settings do not give the recorded token
            here, because recomputed logits differ in the last digits.
    """

    first: FirstChange | None
    looked: int
    unsure: tuple[int, ...] = ()


def apply_change(run: CachedRun, change: SettingsChange) -> ChangedRun:
    """Validate changed settings and build their processors.

    Args:
        run: a run whose loop decides one token per pass.
        change: the changed settings.

    Raises:
        ParameterError: one sentence with parameter, value and range.
        EngineError: the strategy's loop decides in another way.
    """
    if run.strategy.loop not in ONE_TOKEN_LOOPS:
        raise EngineError(refusal_reason(run.strategy))
    config = build_changed_config(run, change.params)
    found, sample = build_processors(run, config)
    if run.strategy.loop is dola_loop:
        _check_constraints(run, config, change.off)
        # DoLa's loop adds this stage itself; ``PassReplay.replay_pass`` fills in the contrast of each pass.
        found = [LayerContrast(torch.empty(0)), *found]
    found = _reorder_processors(found, _check_names("order", change.order, found))
    off = set(_check_names("off", change.off, found))
    active = tuple(one for one in found if display_name(one) not in off)
    return ChangedRun(run, change, config, active, tuple(display_name(p) for p in found), sample)


def _check_constraints(run: CachedRun, config: Any, off: Sequence[str]) -> None:
    """Raise an EngineError if a constraint of a DoLa run changes: the contrast depends on it."""
    for processor, name in CONSTRAINTS.items():
        changes = getattr(config, name) != getattr(run.config, name)
        if changes or (processor in off and getattr(config, name) is not None):
            raise EngineError(
                "DoLa contrasts only the tokens that {name} allows, so run it again to change that.",
                name=name,
            )


def refusal_reason(strategy: Strategy) -> str:
    """Return why a strategy allows no what-if analysis, "" if it does."""
    if strategy.loop in ONE_TOKEN_LOOPS:
        return ""
    reasons = {
        "beams": "its beams depend on each other, so a change needs new passes of the model",
        "repeats": "it reads its candidates ahead, which needs new passes of the model",
        "custom": "the method's own code decides, and only its model calls can be seen",
        "faster": "other settings would draft other tokens",
    }
    reason = reasons.get(strategy.group, "its loop decides in its own way")
    return Message(
        "{title}: this needs a new run, because {reason}.",
        title=strategy.title,
        reason=reason,
    )


def _check_names(what: str, given: object, found: list[Any]) -> list[str]:
    """Validate names; drop processors that are absent under the new parameters."""
    listed = list(given) if isinstance(given, (list, tuple)) else None
    if listed is None or len(listed) > _MAX_NAMES or not all(isinstance(n, str) for n in listed):
        raise ParameterError(
            what,
            given,
            Message("it must be a list of up to {most} names of processors", most=_MAX_NAMES),
        )
    known = {*OFF_VALUES, "LayerContrast", "SynthId", *(display_name(one) for one in found)}
    for name in listed:
        if name not in known:
            raise ParameterError(
                what, name, Message("it must be one of {choices}", choices=", ".join(sorted(known)))
            )
    there = {display_name(one) for one in found}
    return [name for name in dict.fromkeys(listed) if name in there]


def _reorder_processors(found: list[Any], order: list[str]) -> list[Any]:
    """Put the named processors in the named order, in the slots they occupy together."""
    by_name = {display_name(one): one for one in found}
    turn = iter(order)
    return [by_name[next(turn)] if display_name(one) in order else one for one in found]


def to_parameters(changed: ChangedRun) -> dict[str, Any] | None:
    """Return parameters for a real run with the same settings, None if there are none."""
    params = dict(changed.change.params)
    for name in changed.change.off:
        if name not in OFF_VALUES:
            return None
        params[OFF_VALUES[name][0]] = OFF_VALUES[name][1]
    try:
        config = build_changed_config(changed.run, params)
    except EngineError:
        return None
    # Only if generate() builds the very same processors does a run with these parameters match.
    real = [display_name(one) for one in build_processors(changed.run, config)[0]]
    names = [name for name in changed.names if name != "LayerContrast"]
    if "LayerContrast" in changed.all and changed.names[:1] != ("LayerContrast",):
        return None
    # A watermark with bias 0 still has its processor, without effect.
    if getattr(config, "bias", None) == 0.0 and "GreenList" not in names:
        real = [name for name in real if name != "GreenList"]
    return params if real == names else None


class PassReplay:
    """Repeats the passes of a run under changed settings, from the first on.

    Args:
        changed: see ``apply_change``; its processors may carry state from pass to pass.
    """

    def __init__(self, changed: ChangedRun) -> None:
        self.changed, self.run = changed, changed.run
        self.device = processor_device(self.run)
        self.done = 0
        """Number of passes already repeated or skipped."""
        self.generator = torch.Generator(self.device).manual_seed(self.run.header.seed)
        self.stateful = [
            one
            for one in changed.processors
            if isinstance(one, transformers.SynthIDTextWatermarkLogitsProcessor)
        ]

    @property
    def is_draw_repeatable(self) -> bool:
        """Whether this machine can draw the run's own noise."""
        return self.device == (self.run.header.model.device or "cpu")

    def skip_to(self, one: CachedPass) -> None:
        """Advance to a pass: repeat earlier draws and refill the processors' state."""
        blank = torch.empty(one.logits.shape, device=self.device)
        while self.done < one.number:
            # Draw in the same shape: no generator can skip ahead alike on every device.
            if self.changed.sample:
                draw_coins(self.changed.processors, blank, [self.generator])
                draw_noise(blank, self.generator)
            # Each pass adds one token, so an earlier pass had read fewer by their distance.
            length = one.input_ids.shape[1] - (one.number - self.done)
            before = one.input_ids[:, :length].to(self.device)
            for processor in self.stateful:
                # Their state depends on the ids alone, so any scores will do.
                processor(cast(torch.LongTensor, before), torch.zeros_like(blank))
            self.done += 1

    def prepare_processors(self, here: CachedPass) -> list[Any]:
        """Return the processors of a pass that ``skip_to`` reached, with the coins that the run drew."""
        processors = fit_processors(self.changed.processors, len(here.logits))
        if self.changed.sample:
            draw_coins(processors, here.logits, [self.generator])
        return processors

    def replay_pass(self, one: CachedPass) -> tuple[Observation, torch.Tensor]:
        """Return a pass's observation and its (rows,) tokens; call in the order of the passes."""
        self.skip_to(one)
        here = one.to(self.device)
        processors = self.prepare_processors(here)
        for i, processor in enumerate(processors):
            if isinstance(processor, LayerContrast) and here.contrast is not None:
                processors[i] = LayerContrast(here.contrast)
        with name_model(self.changed.run):
            observation = Recorder().observe(here.logits, here.input_ids, processors)
        self.done += 1
        noise = draw_noise(observation.scores, self.generator) if self.changed.sample else None
        return observation, choose_tokens(observation.scores, noise)[0]


def decide_step(place: StepRef, changed: ChangedRun) -> tuple[Observation, int]:
    """Return a step's observation under changed settings, and its token.

    Raises:
        EngineError: the step's logits are unavailable, or a processor removes every token.
    """
    if not place.passes:
        raise EngineError("The logits of this step are not known here: run it again to ask.")
    observation, tokens = PassReplay(changed).replay_pass(place.passes[-1])
    check_scores(observation, place.row)
    return observation, int(tokens[place.row])


def check_scores(observation: Observation, row: int) -> None:
    """Refuse a distribution that cannot be drawn from.

    Raises:
        DecodeError: names the processor that removed every token, or produced NaN or infinity.
    """
    for name, scores in observation.stages:
        if not bool((scores[row] > IMPOSSIBLE_SCORE).any()):
            raise DecodeError("{name} would remove every token of this step.", name=name)
        if bool(scores[row].isnan().any()):
            raise DecodeError("The scores would become NaN in {name}.", name=name)
        if bool(scores[row].isposinf().any()):
            raise DecodeError("The scores would become infinite in {name}.", name=name)


def scan_run(
    run: CachedRun, changed: ChangedRun, cancelled: threading.Event | None = None
) -> ScanResult:
    """Search a run for the first step that changed settings would alter.

    Args:
        run: the run.
        changed: the changed settings, see ``apply_change``; built for this call because processors keep state.
        cancelled: stops the search when set.

    Raises:
        Cancelled: ``cancelled`` was set.
        EngineError: a step's logits are unavailable, or the search takes longer than
            ``max_asking_s``.
    """
    until = work_time() + SETTINGS.max_asking_s
    repeated, unsure = PassReplay(changed), []
    # Recomputed logits differ by about 1e-5, so each step's own settings are decided as well.
    # A second replay, because both have a generator and processors with state.
    own = PassReplay(apply_change(run, SettingsChange())) if run.source != CACHED else None
    observation: Observation | None = None
    last, tokens, usual = -1, torch.empty(0), torch.empty(0)
    # A copy: the run may still be under way, and its worker appends to the list.
    for step in list(run.steps):
        if cancelled is not None and cancelled.is_set():
            raise Cancelled
        if work_time() > until:
            raise EngineError(
                "Looking through the run was stopped at step {step}, after {max_asking_s} "
                "seconds; nothing had changed until there.",
                step=step.index + 1,
                max_asking_s=f"{SETTINGS.max_asking_s:g}",
            )
        one = _last_pass(run, step)
        # Rows of a batch share a pass, so it is repeated once for all of them.
        if one.number != last:
            observation, tokens = repeated.replay_pass(one)
            usual = own.replay_pass(one)[1] if own is not None else tokens
            last = one.number
        row = run.batch_row(step)
        assert observation is not None  # no pass has the number -1
        check_scores(observation, row)
        became = int(tokens[row])
        if own is not None and int(usual[row]) != step.emit[0]:
            unsure.append(step.index)
        elif became != step.emit[0]:
            return ScanResult(
                FirstChange(step.index, became, step.emit[0]), step.index + 1, tuple(unsure)
            )
    return ScanResult(None, len(run.steps), tuple(unsure))


def _last_pass(run: CachedRun, step: Step) -> CachedPass:
    passes = step_ref_in_run(run, step.index).passes
    if not passes:
        if run.source == RECORDED:
            raise EngineError("Which step changes first is not known without the model.")
        raise EngineError("Which step changes first is not known here.")
    return passes[-1]
