"""Runs a custom generation method, in a sandboxed process or as a function in this one."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from engine.errors import Cancelled, EngineError, MethodError
from engine.loops.recorder import Recorder
from engine.loops.teacher_forced import decoder_prefix_ids
from engine.messages import Message
from engine.models.devices import default_device
from engine.models.loading import LoadedModel
from engine.models.model_resolver import resolve_model
from engine.models.model_views import copy_without_defaults
from engine.processors import FILTERS
from engine.run.generation import (
    generate_inputs,
    generation_values,
    own_filters,
    reads_texts,
    stop_criteria,
)
from engine.run.preparation import Prepared
from engine.run.ticket import EventCallback, Ticket, keep_random_state
from engine.sandbox.confinement import BARRIERS, DEVICE
from engine.sandbox.forward_watch import ForwardWatch
from engine.sandbox.method_lookup import SHIPPED, FoundMethod
from engine.sandbox.outcome import MessageReader, Outcome
from engine.sandbox.prewarmed_process import acquire_process
from engine.sandbox.return_value import read_return_value
from engine.sandbox.sandbox_main import build_filter_argument
from engine.sandbox.sandbox_parent import SandboxProcess
from engine.settings import SETTINGS
from engine.strategies.compatibility import uses_cache
from engine.temporary_folder import TemporaryFolder
from engine.timing_noise import work_time
from engine.trace.events import Loading
from engine.trace.records import Step

_MAX_PRINTED = 300
_CPU_NOTE = "The model computed on the CPU: the method's process has no access to the GPU."
StepCallback = Callable[[Step], None]


@dataclass(frozen=True)
class MethodResult:
    """Result of a method's run.

    Attributes:
        sequences: new tokens of every sequence, padding included.
        notes: sentences for the trace.
        whole: False if the run was stopped.
    """

    sequences: list[list[int]]
    notes: tuple[str, ...] = ()
    whole: bool = True


@contextmanager
def open_sandbox(
    run: Prepared, tell: EventCallback, cancelled: threading.Event
) -> Iterator[tuple[SandboxProcess | None, float]]:
    """Yield the sandboxed process of a run's method and its start-up seconds.

    A method given as a function needs no process: yields (None, 0.0).

    Raises:
        Cancelled: the run was cancelled during start-up.
        MethodError: the process could not start, or this machine cannot confine it.
    """
    if run.method is None or run.method.function is not None:
        yield None, 0.0
        return
    tell(Loading(run.target.name))
    began = time.perf_counter()
    with (
        _open_model_folder(run.target, tokenizer=_needs_tokenizer(run)) as (
            folder,
            weights,
        ),
        acquire_process(folder, weights, cancelled) as child,
    ):
        _check_barriers(run, child)
        yield child, time.perf_counter() - began


def run_method(
    run: Prepared, child: SandboxProcess | None, take: StepCallback, ticket: Ticket
) -> MethodResult:
    """Run a method to its end.

    Args:
        run: the prepared run.
        child: the sandboxed process; None runs a function in this process.
        take: called with every step as it is observed.
        ticket: its turn; setting ``cancelled`` stops the method.

    Raises:
        MethodError: the method raised, ran too long, or returned something other than ids.
    """
    written: list[int] = []

    def on_step(step: Step) -> None:
        written[step.keep :] = step.emit
        take(step)

    try:
        outcome = (
            _run_in_this_process(run, on_step, ticket)
            if child is None
            else _run_in_sandbox(run, child, on_step, ticket.cancelled)
        )
    except Cancelled:
        # A stopped method returns nothing, so the observed tokens are the text.
        return MethodResult([written], whole=False)
    printed = "" if child is None else " ".join(child.printed.split())
    notes = (
        (Message("The method printed: {printed}", printed=printed[:_MAX_PRINTED]),)
        if printed
        else ()
    )
    return MethodResult([list(row) for row in outcome.sequences], (*outcome.notes, *notes))


def _run_in_sandbox(
    run: Prepared, child: SandboxProcess, on_step: StepCallback, cancelled: threading.Event
) -> Outcome:
    # The process builds the same criteria; here a tokenizer that has none gives a sentence.
    stop_criteria(run.config, run.target)
    # Iterated by hand below: a for loop would drop the generator's return value.
    steps = child.run(_found_method(run).method, build_job(run), cancelled)
    while True:
        try:
            step = next(steps)
        except StopIteration as end:
            return end.value
        on_step(step)


def build_job(run: Prepared) -> dict[str, Any]:
    """Return the job message for the sandboxed process; see ``sandbox_main``."""
    config, target = run.config, run.target
    found = run.method.found if run.method else None
    own = found.method.takes if found else frozenset()
    arguments = dict(config.arguments or {})
    if "seed" in own:
        # Otherwise a method that sets a seed would ignore the run's.
        arguments.setdefault("seed", run.request.seed)
    use_cache = uses_cache(run.strategy, target.capabilities)
    select = run.strategy.generate_kwargs(config)
    allowed = config.prefix_allowed_tokens_fn
    return {
        "filters": [
            [one.name, *values] for one, values in own_filters(config, select, target.eos_token_ids)
        ],
        "structured_outputs": config.structured_outputs,
        "thinking": {name: getattr(config, name) for name in FILTERS["ThinkingBudget"].params},
        "written": run.request.parent.written if run.request.parent else 0,
        "negative_prompt_ids": list(config.negative_prompt_ids or ()),
        "allowed": [] if allowed is None or callable(allowed) else [list(row) for row in allowed],
        "ids": [list(run.prompt_ids)],
        "config": generation_values(config, select, target, use_cache=use_cache),
        "arguments": arguments,
        "seed": run.request.seed,
        "top_candidates": run.request.top_candidates,
        "stop_strings": list(config.stop_strings or ()),
    }


def _run_in_this_process(run: Prepared, on_step: StepCallback, ticket: Ticket) -> Outcome:
    """Run a function in this process, without a sandbox: it is the caller's own code."""
    from transformers import GenerationConfig

    assert run.method is not None
    function, target, job = run.method.function, run.target, build_job(run)
    model = copy_without_defaults(target.model)
    prompt = torch.tensor(job["ids"], device=target.device)
    before = decoder_prefix_ids(target, job["ids"][0])
    recorder = Recorder(run.request.top_candidates)
    ends = job["config"]["eos_token_id"] or ()
    stoppable = _make_stoppable(on_step, ticket.cancelled)
    watch = ForwardWatch(recorder, before, target.is_encoder_decoder, stoppable, ends)
    try:
        # A method draws from torch's global generator, so its state is restored afterwards.
        with (
            torch.random.fork_rng(),
            torch.no_grad(),
            watch.attach(model),
            ticket.lifting(watch.detach, keep_random_state),
        ):
            torch.manual_seed(job["seed"])
            # A model folder may have replaced the instance's own generate.
            returned = type(model).generate(
                model,
                prompt,
                # Without a mask generate() masks every token of the prompt that equals the padding token.
                attention_mask=torch.ones_like(prompt),
                generation_config=GenerationConfig(**job["config"]),
                custom_generate=function,
                stopping_criteria=stop_criteria(run.config, target),
                **build_filter_argument(job, target),
                **generate_inputs(run.config, target, 1, prompt.shape[1]),
                **job["arguments"],
            )
    except (EngineError, Cancelled):
        raise
    except Exception as error:
        raise MethodError(_format_function_error(function, error)) from None
    outcome = read_return_value(returned, target.vocab_size)
    if outcome.get("sequences"):
        watch.close(outcome["sequences"][0])
    return MessageReader(target.vocab_size).read_outcome(
        {**outcome, "start": watch.start, "passes": watch.passes}
    )


def _make_stoppable(on_step: StepCallback, cancelled: threading.Event) -> StepCallback:
    """Return a step callback that raises between two steps if cancelled or over the time limit."""
    deadline = work_time() + SETTINGS.max_method_s

    def take(step: Step) -> None:
        on_step(step)
        if cancelled.is_set():
            raise Cancelled
        if work_time() > deadline:
            raise MethodError(
                "The method ran past {s} seconds and was ended.", s=f"{SETTINGS.max_method_s:g}"
            )

    return take


def _format_function_error(function: object, error: Exception) -> str:
    """Return one sentence that names the failing line of the function's own file."""
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    text = " ".join(str(error).split())[:_MAX_PRINTED]
    fault = f"{type(error).__name__}{': ' if text else ''}{text.rstrip('.')}."
    if not lines:
        return fault
    return Message(
        "{function}, line {n}: {error}",
        function=getattr(function, "__name__", "function"),
        n=lines[-1],
        error=fault,
    )


def _needs_tokenizer(run: Prepared) -> bool:
    """Return whether a setting is compared with the text, not only with ids."""
    return bool(run.config.stop_strings) or reads_texts(run.config)


@contextmanager
def _open_model_folder(
    target: LoadedModel, *, tokenizer: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the model folder and load arguments for the sandbox.

    An in-memory model is saved to a temporary folder first.

    Args:
        target: the model.
        tokenizer: also save the tokenizer; not every working tokenizer can be saved.
    """
    if target.source is not None and target.weights is not None:
        # The process reads the same files: nothing is copied.
        yield resolve_model(target.source)[0], target.weights.changed_values()
        return
    with TemporaryFolder("model") as folder:
        try:
            # A caller's model may be of any class, and saving can fail in many ways.
            target.model.save_pretrained(folder)
            if tokenizer and target.tokenizer is not None:
                target.tokenizer.save_pretrained(folder)
        except Exception as error:
            raise MethodError(
                "{name} was given as an object and cannot be handed to another process ({kind}).",
                name=target.name,
                kind=type(error).__name__,
            ) from None
        yield folder, {"dtype": str(target.model.dtype).removeprefix("torch.")}


def _check_barriers(run: Prepared, child: SandboxProcess) -> None:
    """Refuse untrusted code on a public deployment if a sandbox barrier is missing.

    Raises:
        MethodError: names the missing barriers.
    """
    missing = [name for name in BARRIERS if name not in child.barriers]
    if missing and SETTINGS.public and _found_method(run).source != SHIPPED:
        raise MethodError(
            "{name} cannot run here: this machine has no barrier for {missing}.",
            name=_found_method(run).name,
            missing=", ".join(missing),
        )


def sandbox_notes(child: SandboxProcess | None) -> tuple[str, ...]:
    """Return notes about a GPU that the method could not use and about missing barriers."""
    if child is None:
        return ()
    notes = []
    if default_device() != DEVICE:
        notes.append(_CPU_NOTE)
    missing = [name for name in BARRIERS if name not in child.barriers]
    if missing:
        notes.append(
            Message(
                "This machine could not keep the method from everything: no barrier for {missing}.",
                missing=", ".join(missing),
            )
        )
    return tuple(notes)


def _found_method(run: Prepared) -> FoundMethod:
    assert run.method is not None
    assert run.method.found is not None
    return run.method.found
