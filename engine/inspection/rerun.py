"""Rerun a recorded run up to one step and capture what that step saw.

The same request and seed give the same steps. Processor state, beams, drafts and the random
generator are therefore those of the run.
"""

from __future__ import annotations

import copy
import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from engine.errors import BusyError, Cancelled, DecodeError, EngineError
from engine.loops.drafting.drafter import Draft
from engine.loops.recorder import Recorder, Stages
from engine.messages import Message
from engine.models.loading import LoadedModel, find_loaded_model, pin_models
from engine.run.preparation import Prepared, prepare
from engine.run.request import DecodeRequest, check_request, request_from_trace
from engine.run.run import call_generate
from engine.run.scheduler import wait_for_turn
from engine.run.stop_criterion import StopCriterion
from engine.settings import SETTINGS
from engine.strategies.base import Context
from engine.trace.records import Step, Trace

if TYPE_CHECKING:
    from engine.run.weights import RequestedModel

MAX_RERUN_S = SETTINGS.max_asking_s
"""Seconds that one rerun may compute."""
CUSTOM_METHOD_REFUSAL = "What a custom method saw can only be seen while it runs."
FILL_REFUSAL = "The recording has all that is known of a pass of masked diffusion."
MODEL_WAIT_S = 10.0
"""Seconds to wait for the model."""


@dataclass(frozen=True)
class ObservedPass:
    """The input of one pass's logits processors and the output of each.

    Attributes:
        logits: (rows, vocab) scores that the first processor received.
        input_ids: (rows, length) ids so far.
        processors: copies with the state they had before the pass.
        stages: (rows, vocab) output of each processor.
    """

    logits: torch.Tensor
    input_ids: torch.Tensor
    processors: tuple[Any, ...]
    stages: tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class ReplayedStep:
    """A step of a run, with the passes that decided it if a rerun reproduced them.

    Attributes:
        trace: the run; steps after this one may be missing.
        step: the step itself.
        run: the prepared request with its models; None if only the recording is available.
        views: the step's passes in order; empty if only the recording is available.
        row: row of the views that belongs to the step.
        noise_state: state of the random generator before the step's draws.
        draft: the drafter's guess, for drafting strategies.
        refused: one sentence on why only the recording is available.
    """

    trace: Trace
    step: Step
    run: Prepared | None = None
    views: tuple[ObservedPass, ...] = ()
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
        """Return the text of a token, or ``#id`` if its text is unknown."""
        if self.run is not None and token_id < self.target.vocab_size:
            return self.target.pieces[token_id]
        known = self.trace.pieces.get(token_id)
        if known is not None:
            return known
        # The trace of a cached run names only its prompt tokens.
        model = self.trace.model
        loaded = find_loaded_model(model.id, model.revision)
        return f"#{token_id}" if loaded is None else loaded.pieces[token_id]

    def generator(self) -> torch.Generator:
        """Return a generator in the state it had before the step's draws."""
        assert self.noise_state is not None
        generator = torch.Generator(self.target.device)
        generator.set_state(self.noise_state)
        return generator


class _StepReached(Exception):
    """Raised to end the rerun after the wanted step."""


class _PassRecorder(Recorder):
    """A recorder that keeps the passes of the current step."""

    def __init__(self, generator: torch.Generator) -> None:
        # One candidate is enough: only the passes are used, not the record.
        super().__init__(1)
        self.random = generator
        self.views: list[ObservedPass] = []
        self.state: torch.Tensor | None = None
        self.ended = True

    def apply_processors(
        self,
        logits: torch.Tensor,
        input_ids: torch.Tensor,
        processors: Sequence[Callable[..., torch.Tensor]],
    ) -> tuple[torch.Tensor, Stages]:
        # The first pass of a new step starts a new list; the state is from before its draws.
        if self.ended:
            self.views, self.ended, self.state = [], False, self.random.get_state()
        # Copied before the call, in the state in which they will decide.
        before = tuple(copy_processor(processor) for processor in processors)
        scores, stages = super().apply_processors(logits, input_ids, processors)
        outputs = tuple(output for _, output in stages)
        self.views.append(ObservedPass(logits, input_ids, before, outputs))
        return scores, stages


def copy_processor(processor: Any) -> Any:
    """Copy a processor so that calls of the original leave the copy's state unchanged."""
    state = getattr(processor, "state", None)
    if state is None:
        return copy.copy(processor)
    # copy.copy alone would share SynthID's state, which every call changes in place.
    twin = copy.copy(processor)
    twin.state = copy.deepcopy(state)
    return twin


def replay_to_step(
    trace: Trace, index: int, model: RequestedModel = None, assistant: RequestedModel = None
) -> ReplayedStep:
    """Rerun a run up to a step and return the step with its passes.

    If the rerun is impossible, the result has the recording only, and ``refused`` says why.

    Args:
        trace: the run; later steps may be missing.
        index: index of the step.
        model: a LoadedModel that replaces the one the trace names.
        assistant: a LoadedModel that replaces the trace's draft model.
    """
    step = trace.steps[index]
    try:
        return _replay_request(trace, step, request_from_trace(trace, model, assistant))
    except EngineError as error:
        return ReplayedStep(trace, step, refused=str(error))


def _replay_request(trace: Trace, step: Step, request: DecodeRequest) -> ReplayedStep:
    if trace.method is not None:
        raise DecodeError(CUSTOM_METHOD_REFUSAL)
    run = prepare(check_request(request))
    with pin_models(run.target, run.assistant), _wait_for_models(run):
        remade_step, found = _run_until_step(run, step)
    if (remade_step.keep, remade_step.emit) != (step.keep, step.emit):
        raise DecodeError(
            "This run cannot be repeated exactly here, so only its recording is known."
        )
    # One-by-one strategies decode each sequence as row 0 of a separate batch.
    row = 0 if run.strategy.one_by_one or not found.views else step.sequence
    row = min(row, len(found.views[0].input_ids) - 1)
    return dataclasses.replace(found, trace=trace, step=step, row=row)


@contextmanager
def _wait_for_models(run: Prepared) -> Iterator[None]:
    """Hold the models' turn in the run queue, after waiting at most ``MODEL_WAIT_S`` seconds.

    Raises:
        BusyError: another run occupies the model.
    """
    enough = threading.Event()
    timer = threading.Timer(MODEL_WAIT_S, enough.set)
    timer.start()
    try:
        with wait_for_turn(enough, run.target, run.assistant):
            timer.cancel()
            yield
    except Cancelled:
        raise BusyError(
            "The model is busy with another run; ask again when it has ended."
        ) from None
    finally:
        timer.cancel()


def _run_until_step(run: Prepared, target_step: Step) -> tuple[Step, ReplayedStep]:
    """Run up to the wanted step; return the new step and its passes."""
    device = run.target.device
    generator = torch.Generator(device).manual_seed(run.request.seed)
    recorder = _PassRecorder(generator)
    stop = StopCriterion(
        threading.Event(), recorder.started + min(MAX_RERUN_S, SETTINGS.max_runtime_s)
    )
    prompt = torch.tensor([run.prompt_ids], device=device)
    context = Context(run.config, run.target, run.assistant, prompt, recorder, generator)
    extra = {**run.strategy.prepare(context), "recorder": recorder, "generator": generator}
    drafts = _record_drafts(extra)
    found: list[Step] = []
    number = 0

    def on_step(step: Step) -> None:
        nonlocal number
        recorder.ended = True
        if number == target_step.index:
            found.append(step)
            # Ends the loop at once; as_custom_generate closes its generator.
            raise _StepReached
        # Counted here: the index of a loop begins at 0 again for every sequence decoded one by one.
        number += 1

    count = run.config.num_return_sequences if run.strategy.one_by_one else 1
    config = run.config
    if count > 1:
        config = dataclasses.replace(config, num_return_sequences=1)
    try:
        for _ in range(count):
            call_generate(run, config, prompt, on_step, stop, extra)
    except _StepReached:
        pass
    if not found:
        raise DecodeError(
            Message(
                "Making this step again took more than {limit_s} seconds.",
                limit_s=f"{MAX_RERUN_S:g}",
            )
            if stop.expired
            else "This run cannot be repeated exactly here, so only its recording is known."
        )
    draft = drafts[-1] if drafts else None
    place = ReplayedStep(
        # A placeholder: the caller sets the recorded trace and step.
        Trace("", {}, run.target.info(), {}, 0, None, (), {}, (), ()),
        target_step,
        run,
        tuple(recorder.views),
        noise_state=recorder.state,
        draft=draft,
    )
    return found[0], place


def _record_drafts(extra: dict[str, Any]) -> list[Draft]:
    """Make the run's drafter record its newest draft; drop measurements after the text."""
    drafts: list[Draft] = []
    make = extra.get("make_drafter")
    extra.pop("after", None)
    if make is None:
        return drafts

    def make_recording_drafter(context: Any) -> Any:
        drafter = make(context)
        draft = drafter.draft

        def draft_and_store(input_ids: torch.Tensor) -> Draft:
            guess = draft(input_ids)
            # Only the newest one, which belongs to the round that is decided next.
            drafts[:] = [guess]
            return guess

        drafter.draft = draft_and_store
        return drafter

    extra["make_drafter"] = make_recording_drafter
    return drafts
