"""What a recorded step would have become under other settings, without running again.

transformers' own processors run over the stored logits, and the draw is repeated with the run's own
noise: the run's generator, seeded as it was, draws once for every pass, in the same shape and on the
same device. Up to the first token that changes, this is what a real run does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import transformers

from engine.asking.kept import KEPT, RECORDED, KeptRun, Pass
from engine.asking.place import AskedStep, at
from engine.asking.processors import OFF, changed_config, device_of, processors_of
from engine.asking.recomputed import TOKEN_A_PASS
from engine.errors import Cancelled, DecodeError, EngineError, ParameterError
from engine.loops.dola import LayerContrast, dola_loop
from engine.loops.next_token import noise_like, race
from engine.loops.recorder import NEVER, Observation, Recorder, display_name
from engine.loops.rows import for_rows
from engine.settings import SETTINGS
from engine.trace.records import Step

_MOST = 64
"""Most names in a question."""


@dataclass(frozen=True)
class Change:
    """Other settings for a run.

    Attributes:
        params: names and raw values; what is left out is as it was.
        off: display names of processors that are left out.
        order: display names of processors in the order in which they run; they share the places they
            have by themselves, and a processor that is not named keeps its own.
    """

    params: Mapping[str, Any] = field(default_factory=dict)
    off: Sequence[str] = ()
    order: Sequence[str] = ()


@dataclass(frozen=True)
class Asked:
    """A run with other settings, checked: what can be asked of every one of its steps.

    Attributes:
        run: the run.
        change: what was asked for.
        config: the strategy's, with the changed parameters.
        processors: those that act, in their order.
        all: display names of all of them, also of those that are left out.
        sample: whether tokens are drawn.
    """

    run: KeptRun
    change: Change
    config: Any
    processors: tuple[Any, ...]
    all: tuple[str, ...]
    sample: bool

    @property
    def names(self) -> tuple[str, ...]:
        """Display names of the processors that act."""
        return tuple(display_name(one) for one in self.processors)


@dataclass(frozen=True)
class Changed:
    """The first step of a run that would have been another."""

    step: int
    token_id: int
    recorded: int


@dataclass(frozen=True)
class Scan:
    """A run looked through from its start.

    Attributes:
        first: the first step that changes; None when all that were looked at stay.
        looked: steps that were looked at.
        unsure: those of them whose own settings do not give the recorded token here, because
            their logits are not the run's own to the last bit; they are left out.
    """

    first: Changed | None
    looked: int
    unsure: tuple[int, ...] = ()


def ask(run: KeptRun, change: Change) -> Asked:
    """Check what is asked.

    Args:
        run: a run whose loop decides one token a pass.
        change: other settings.

    Raises:
        ParameterError: one sentence with parameter, value and range.
        EngineError: the strategy decides in another way.
    """
    if run.strategy.loop not in TOKEN_A_PASS:
        raise EngineError(why_not(run.strategy))
    config = changed_config(run, change.params)
    found, sample = processors_of(run, config)
    if run.strategy.loop is dola_loop:
        found = [LayerContrast(torch.empty(0)), *found]
    found = _ordered(found, _names("order", change.order, found))
    off = set(_names("off", change.off, found))
    active = tuple(one for one in found if display_name(one) not in off)
    return Asked(run, change, config, active, tuple(display_name(p) for p in found), sample)


def why_not(strategy: Any) -> str:
    """Return why a strategy's steps cannot be asked about, "" where they can."""
    if strategy.loop in TOKEN_A_PASS:
        return ""
    reasons = {
        "search": "its beams decide together, and other beams would need new passes of the model",
        "contrast": "it weighs its candidates by a look ahead, which needs new passes of the model",
        "custom": "a method's own code decides, and only its passes can be seen",
        "drafting": "a round is judged against its draft, and another one would be drafted otherwise",
    }
    reason = reasons.get(strategy.family, "its loop decides in a way of its own")
    return f"{strategy.title} cannot be asked what if without running again: {reason}."


def _names(what: str, given: Any, found: list[Any]) -> list[str]:
    """Return names of processors that are there; one that has left with its parameter is dropped."""
    listed = list(given) if isinstance(given, (list, tuple)) else None
    if listed is None or len(listed) > _MOST or not all(isinstance(n, str) for n in listed):
        raise ParameterError(what, given, f"it must be a list of up to {_MOST} names of processors")
    known = {*OFF, "LayerContrast", "SynthId", *(display_name(one) for one in found)}
    for name in listed:
        if name not in known:
            raise ParameterError(what, name, f"it must be one of {', '.join(sorted(known))}")
    there = {display_name(one) for one in found}
    return [name for name in dict.fromkeys(listed) if name in there]


def _ordered(found: list[Any], order: list[str]) -> list[Any]:
    """Let the named processors stand in the named order in the places that they have."""
    by_name = {display_name(one): one for one in found}
    turn = iter(order)
    return [by_name[next(turn)] if display_name(one) in order else one for one in found]


def settings_of(asked: Asked) -> dict[str, Any] | None:
    """Return the parameters of a real run like this, None where no parameters say the same."""
    params = dict(asked.change.params)
    for name in asked.change.off:
        if name not in OFF:
            return None
        params[OFF[name][0]] = OFF[name][1]
    try:
        config = changed_config(asked.run, params)
    except EngineError:
        return None
    real = [display_name(one) for one in processors_of(asked.run, config)[0]]
    wanted = [name for name in asked.names if name != "LayerContrast"]
    if "LayerContrast" in asked.all and asked.names[:1] != ("LayerContrast",):
        return None
    # A bias of 0 leaves the processor of a watermark in its place.
    if getattr(config, "bias", None) == 0.0 and "GreenList" not in wanted:
        real = [name for name in real if name != "GreenList"]
    return params if real == wanted else None


class Repeated:
    """Repeats the passes of a run under other settings, from the first on.

    Args:
        asked: see ``ask``; its processors may carry a state from pass to pass.
    """

    def __init__(self, asked: Asked) -> None:
        self.asked, self.run = asked, asked.run
        self.device = device_of(self.run)
        self.done = 0
        """Passes that are behind."""
        self.generator = torch.Generator(self.device).manual_seed(self.run.header.seed)
        self.stateful = [
            one
            for one in asked.processors
            if isinstance(one, transformers.SynthIDTextWatermarkLogitsProcessor)
        ]

    @property
    def same_luck(self) -> bool:
        """Whether this machine can draw the run's own noise."""
        return self.device == (self.run.header.model.device or "cpu")

    def skip_to(self, one: Pass) -> None:
        """Put behind what comes before a pass: its draws, and what its processors remember."""
        blank = torch.empty(one.logits.shape, device=self.device)
        while self.done < one.number:
            if self.asked.sample:
                noise_like(blank, self.generator)
            length = one.input_ids.shape[1] - (one.number - self.done)
            before = one.input_ids[:, :length].to(self.device)
            for processor in self.stateful:
                processor(cast(torch.LongTensor, before), torch.zeros_like(blank))
            self.done += 1

    def repeat(self, one: Pass) -> tuple[Observation, torch.Tensor]:
        """Return what a pass sees, and (rows,) the tokens it decides for; the next one must follow."""
        self.skip_to(one)
        here = one.to(self.device)
        processors = for_rows(self.asked.processors, len(here.logits))
        for i, processor in enumerate(processors):
            if isinstance(processor, LayerContrast) and here.contrast is not None:
                processors[i] = LayerContrast(here.contrast)
        seen = Recorder().observe(here.logits, here.input_ids, processors)
        self.done += 1
        if not self.asked.sample:
            return seen, seen.scores.argmax(-1)
        probs = torch.softmax(seen.scores, dim=-1)
        return seen, race(probs, noise_like(probs, self.generator))[0]


def decide(place: AskedStep, asked: Asked) -> tuple[Observation, int]:
    """Return what a step would have seen under other settings, and its token.

    Raises:
        EngineError: nothing is known of the step, or a processor leaves no token.
    """
    if not place.passes:
        raise EngineError("The logits of this step are not known here: run it again to ask.")
    seen, tokens = Repeated(asked).repeat(place.passes[-1])
    check(seen, place.row)
    return seen, int(tokens[place.row])


def check(seen: Observation, row: int) -> None:
    """Refuse a distribution that cannot be drawn from.

    Raises:
        DecodeError: naming the processor that left nothing or made numbers that are none.
    """
    for name, scores in seen.stages:
        if not bool((scores[row] > NEVER).any()):
            raise DecodeError(f"{name} would remove every token of this step.")
        if bool(scores[row].isnan().any()):
            raise DecodeError(f"The scores would become NaN in {name}.")


def scan(run: KeptRun, asked: Asked, cancelled: threading.Event | None = None) -> Scan:
    """Look a run through for the first step that other settings would have changed.

    Args:
        run: the run.
        asked: its other settings, see ``ask``; made for this call, as processors remember.
        cancelled: ends the search when set.

    Raises:
        Cancelled: ``cancelled`` was set.
        EngineError: the logits of some step are not known, or it takes too long.
    """
    until = time.perf_counter() + SETTINGS.max_asking_s
    repeated, unsure = Repeated(asked), []
    own = Repeated(ask(run, Change())) if run.source != KEPT else None
    last, tokens, usual = -1, torch.empty(0), torch.empty(0)
    for step in list(run.steps):
        if cancelled is not None and cancelled.is_set():
            raise Cancelled
        if time.perf_counter() > until:
            raise EngineError(
                f"Looking through the run was stopped at step {step.index + 1}, after"
                f" {SETTINGS.max_asking_s:g} seconds; nothing had changed until there."
            )
        one = _known(run, step)
        if one.number != last:
            seen, tokens = repeated.repeat(one)
            usual = own.repeat(one)[1] if own is not None else tokens
            last = one.number
        row = run.row(step)
        check(seen, row)
        became = int(tokens[row])
        if own is not None and int(usual[row]) != step.emit[0]:
            unsure.append(step.index)
        elif became != step.emit[0]:
            return Scan(Changed(step.index, became, step.emit[0]), step.index + 1, tuple(unsure))
    return Scan(None, len(run.steps), tuple(unsure))


def _known(run: KeptRun, step: Step) -> Pass:
    passes = at(run, step.index).passes
    if not passes:
        whose = "without the model" if run.source == RECORDED else "here"
        raise EngineError(f"Which step changes first is not known {whose}.")
    return passes[-1]
