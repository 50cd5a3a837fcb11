"""Run a recorded run again up to one of its steps and see what that step saw.

The same request with the same seed makes the same steps, so nothing has to be put together
afterwards: states of processors, beams, drafts and the place in the random numbers are those of the
run.
"""

from __future__ import annotations

import copy
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from engine.errors import BusyError, Cancelled, DecodeError, EngineError
from engine.loops.drafting.drafter import Draft
from engine.loops.recorder import Recorder, Stages
from engine.models.loading import LoadedModel, in_memory, pinned
from engine.run.permits import running
from engine.run.prepare import Prepared, prepare
from engine.run.request import DecodeRequest, check, request_of
from engine.run.run import StopWhen, generate_with
from engine.settings import SETTINGS
from engine.strategies.base import Context
from engine.trace.records import Step, Trace

LIMIT_S = SETTINGS.max_asking_s
"""How long one question may compute."""
ONLY_ONCE = "What a custom method saw can only be seen while it runs."
WAIT_S = 10.0
"""How long it waits for the model."""


@dataclass(frozen=True)
class View:
    """What the processors of one pass were given and what they made of it.

    Attributes:
        logits: (rows, vocab) as they reached the first processor.
        input_ids: (rows, length).
        processors: as they were before the pass.
        stages: (rows, vocab) what each of them returned.
    """

    logits: torch.Tensor
    input_ids: torch.Tensor
    processors: tuple[Any, ...]
    stages: tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Moment:
    """A step of a run.

    Attributes:
        trace: the run; steps after this one may be missing.
        step: the step itself.
        run: the request with its models, None where only the record is known.
        views: what its passes saw, in order; none where only the record is known.
        row: of the views, that the step is about.
        noise_state: the generator's state before what the step drew.
        draft: what a drafter guessed.
        refused: one sentence: why only the record is known.
    """

    trace: Trace
    step: Step
    run: Prepared | None = None
    views: tuple[View, ...] = ()
    row: int = 0
    noise_state: torch.Tensor | None = None
    draft: Draft | None = None
    refused: str = ""

    @property
    def target(self) -> LoadedModel:
        """The model of the run."""
        assert self.run is not None
        return self.run.target

    def piece(self, token_id: int) -> str:
        """Return the text of a token."""
        if self.run is not None and token_id < self.target.vocab_size:
            return self.target.pieces[token_id]
        known = self.trace.pieces.get(token_id)
        if known is not None:
            return known
        # A run that is remembered by its beginning names the tokens of its prompt alone.
        model = self.trace.model
        loaded = in_memory(model.id, model.revision)
        return f"#{token_id}" if loaded is None else loaded.pieces[token_id]

    def generator(self) -> torch.Generator:
        """Return the run's random numbers as they were before what the step drew."""
        assert self.noise_state is not None
        generator = torch.Generator(self.target.device)
        generator.set_state(self.noise_state)
        return generator


class _Reached(Exception):
    """The step was made."""


class _Watching(Recorder):
    """Remembers what the passes of the newest step saw."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__(1)
        self.random = generator
        self.views: list[View] = []
        self.state: torch.Tensor | None = None
        self.ended = True

    def processed(
        self,
        logits: torch.Tensor,
        input_ids: torch.Tensor,
        processors: Sequence[Callable[..., torch.Tensor]],
    ) -> tuple[torch.Tensor, Stages]:
        if self.ended:
            self.views, self.ended, self.state = [], False, self.random.get_state()
        before = tuple(as_it_is(processor) for processor in processors)
        scores, stages = super().processed(logits, input_ids, processors)
        outputs = tuple(output for _, output in stages)
        self.views.append(View(logits, input_ids, before, outputs))
        return scores, stages


def as_it_is(processor: Any) -> Any:
    """Return a processor that another call of the original does not change."""
    state = getattr(processor, "state", None)
    if state is None:
        return copy.copy(processor)
    twin = copy.copy(processor)
    twin.state = copy.deepcopy(state)
    return twin


def place_of(trace: Trace, index: int, model: Any = None, assistant: Any = None) -> Moment:
    """Return a step of a run with all that it saw, or with its record alone and why.

    Args:
        trace: the run; later steps may be missing.
        index: of the step.
        model: a LoadedModel in place of the one the trace names.
        assistant: likewise.
    """
    step = trace.steps[index]
    try:
        return _again(trace, step, request_of(trace, model, assistant))
    except EngineError as error:
        return Moment(trace, step, refused=str(error))


def _again(trace: Trace, step: Step, request: DecodeRequest) -> Moment:
    if trace.method is not None:
        raise DecodeError(ONLY_ONCE)
    run = prepare(check(request))
    with pinned(run.target, run.assistant), _turn(run):
        made, found = _made(run, step)
    if (made.keep, made.emit) != (step.keep, step.emit):
        raise DecodeError("The run does not come out the same here, so only its record is known.")
    row = 0 if run.strategy.one_by_one or not found.views else step.sequence
    row = min(row, len(found.views[0].input_ids) - 1)
    return dataclasses.replace(found, trace=trace, step=step, row=row)


@contextmanager
def _turn(run: Prepared) -> Iterator[None]:
    """Wait for the models as a run does, but not for long.

    Raises:
        BusyError: another run goes on.
    """
    enough = threading.Event()
    timer = threading.Timer(WAIT_S, enough.set)
    timer.start()
    try:
        with running(enough, run.target, run.assistant):
            timer.cancel()
            yield
    except Cancelled:
        raise BusyError(
            "The model is busy with another run; ask again when it has ended."
        ) from None
    finally:
        timer.cancel()


def _made(run: Prepared, wanted: Step) -> tuple[Step, Moment]:
    """Make the steps up to one; return it and what it saw."""
    device = run.target.device
    generator = torch.Generator(device).manual_seed(run.request.seed)
    recorder = _Watching(generator)
    stop = StopWhen(threading.Event(), recorder.started + min(LIMIT_S, SETTINGS.max_runtime_s))
    prompt = torch.tensor([run.prompt_ids], device=device)
    context = Context(run.config, run.target, run.assistant, prompt, recorder, generator)
    extra = {**run.strategy.prepare(context), "recorder": recorder, "generator": generator}
    drafts = _watched_drafts(extra)
    found: list[Step] = []
    number = 0

    def on_step(step: Step) -> None:
        nonlocal number
        recorder.ended = True
        if number == wanted.index:
            found.append(step)
            raise _Reached
        number += 1

    count = run.config.num_return_sequences if run.strategy.one_by_one else 1
    config = run.config
    if count > 1:
        config = dataclasses.replace(config, num_return_sequences=1)
    try:
        for _ in range(count):
            generate_with(run, config, prompt, on_step, stop, extra)
    except _Reached:
        pass
    if not found:
        raise DecodeError(
            f"Making this step again took more than {LIMIT_S:g} seconds."
            if stop.expired
            else "The run does not come out the same here, so only its record is known."
        )
    draft = drafts[-1] if drafts else None
    place = Moment(
        Trace("", {}, run.target.info(), {}, 0, None, (), {}, (), ()),
        wanted,
        run,
        tuple(recorder.views),
        noise_state=recorder.state,
        draft=draft,
    )
    return found[0], place


def _watched_drafts(extra: dict[str, Any]) -> list[Draft]:
    """Let the drafter of a run be overheard, and leave out what is measured after its text."""
    drafts: list[Draft] = []
    make = extra.get("make_drafter")
    extra.pop("after", None)
    if make is None:
        return drafts

    def watched(context: Any) -> Any:
        drafter = make(context)
        draft = drafter.draft

        def overheard(input_ids: torch.Tensor) -> Draft:
            guess = draft(input_ids)
            drafts[:] = [guess]
            return guess

        drafter.draft = overheard
        return drafter

    extra["make_drafter"] = watched
    return drafts
