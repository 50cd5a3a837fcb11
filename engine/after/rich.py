"""transformers' own outputs of a recorded run: scores, logits, hidden states and attentions.

generate() of transformers makes the run again from its request and its seed, with the flags that return
them. What it returns is handed on as long as its tokens are those of the run.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import torch

from engine.after.rich_flags import (
    RichFlags,
    check_can_be_made,
    check_is_of,
    ended_early,
    passes_of,
)
from engine.after.rich_sizes import check_size
from engine.after.seeded import seeded
from engine.errors import Cancelled, DecodeError, ParameterError
from engine.models.loading import LoadedModel, pinned
from engine.models.openvino import model as on_openvino
from engine.models.twin import twin
from engine.run.permits import Tell, nobody, running
from engine.run.prepare import Models, Prepared, prepare
from engine.run.request import check, request_of
from engine.run.run import StopWhen, generate_arguments, generate_of
from engine.run.threads import threads_for
from engine.settings import SETTINGS
from engine.strategies.drafting_params import draft_values
from engine.trace.records import Trace


def rich_output(
    trace: Trace,
    model: LoadedModel | None = None,
    *,
    assistant: LoadedModel | None = None,
    output_scores: bool = True,
    output_logits: bool = False,
    output_hidden_states: bool = False,
    output_attentions: bool = False,
    cancelled: threading.Event | None = None,
    tell: Tell | None = None,
) -> Any:
    """Return what generate() returns of a run with ``return_dict_in_generate`` and these flags.

    A run that was stopped is made as far as it came. Attentions need eager attention, so with them the whole
    run is made with it: its other numbers may then differ in their last digits from those without.

    Args:
        trace: the run; its steps are not needed.
        model: that made it; None is loaded by its name, held as it was then.
        assistant: the draft model of the run, likewise.
        output_scores: see ``RichFlags``.
        output_logits: likewise.
        output_hidden_states: likewise.
        output_attentions: likewise.
        cancelled: ends it when set.
        tell: gets Waiting and Loading events.

    Returns:
        A GenerateDecoderOnlyOutput, GenerateEncoderDecoderOutput, GenerateBeamDecoderOnlyOutput or
        GenerateBeamEncoderDecoderOutput.

    Raises:
        Cancelled: it was cancelled.
        EngineError: transformers has no such outputs of the run, they would be too large, or the run does not
            come out the same here.
    """
    flags = RichFlags(
        output_scores=output_scores,
        output_logits=output_logits,
        output_hidden_states=output_hidden_states,
        output_attentions=output_attentions,
    )
    check_can_be_made(trace)
    cancelled, tell = cancelled or threading.Event(), tell or nobody
    run = prepare(check(request_of(trace, model, assistant)), Models(cancelled, tell))
    target = run.target
    check_is_of(trace, target)
    _check_shows(target, flags)
    check_size(trace, flags, target)
    with ExitStack() as held:
        held.enter_context(pinned(target, run.assistant))
        held.enter_context(_turn(run, flags, cancelled, tell))
        held.enter_context(threads_for(target, run.assistant))
        output = _generated(run, trace, flags, cancelled)
    _check_same(output, run, trace, flags)
    _check_complete(output, target, flags)
    return output


def _turn(
    run: Prepared, flags: RichFlags, cancelled: threading.Event, tell: Tell
) -> AbstractContextManager[None]:
    """Stand in line for the models of a run."""
    kind = ("rich", run.target.name, *flags.named())
    size = float(run.config.max_new_tokens)
    return running(cancelled, run.target, run.assistant, tell=tell, kind=kind, size=size)


class _StopAt:
    """A stopping criterion: the text is as long as that of the run that was stopped."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        """Return (batch,) True everywhere at that length."""
        del scores, kwargs
        stop = input_ids.shape[1] >= self.length
        return torch.full((input_ids.shape[0],), stop, device=input_ids.device, dtype=torch.bool)


def _generated(run: Prepared, trace: Trace, flags: RichFlags, cancelled: threading.Event) -> Any:
    """Let generate() make the run."""
    target, config = run.target, run.config
    stop = StopWhen(cancelled, time.perf_counter() + SETTINGS.max_runtime_s)
    stopping: list[Any] = [stop]
    if ended_early(trace):
        stopping.append(_StopAt(_start(run) + passes_of(trace)))
    prompt = torch.tensor([run.prompt_ids], device=target.device)
    arguments = generate_arguments(run, config, prompt, stopping)
    wanted = {"return_dict_in_generate": True, **dataclasses.asdict(flags)}
    for name, value in wanted.items():
        setattr(arguments["generation_config"], name, value)
    model, drafting = _models(run, flags)
    if run.assistant is not None:
        arguments["assistant_model"] = drafting
        if run.strategy.assistant == "any_tokenizer":
            arguments["tokenizer"] = target.tokenizer
            arguments["assistant_tokenizer"] = run.assistant.tokenizer
    for name, value in draft_values(config).items():
        setattr(drafting.generation_config, name, value)
    generator = torch.Generator(target.device).manual_seed(run.request.seed)
    try:
        with torch.no_grad(), seeded(generator):
            output = generate_of(target)(model, **arguments)
    except (ValueError, NotImplementedError) as error:
        if cancelled.is_set():
            raise Cancelled from None
        raise DecodeError(
            f"transformers' generate() refuses this run: {str(error).splitlines()[0][:200]!r}."
        ) from None
    if cancelled.is_set():
        raise Cancelled
    if stop.expired:
        raise DecodeError(
            f"Making the run again took more than the {SETTINGS.max_runtime_s:g} seconds that a run may take."
        )
    return output


def _models(run: Prepared, flags: RichFlags) -> tuple[Any, Any]:
    """Return the model that generates, and that whose configuration says how it is drafted."""
    attention = "eager" if flags.output_attentions else None
    model = twin(run.target.model, attention)
    return model, model if run.assistant is None else twin(run.assistant.model, attention)


def _start(run: Prepared) -> int:
    """Return how many ids stand before the text in the sequences that generate() returns."""
    return 1 if run.target.is_encoder_decoder else len(run.prompt_ids)


def _check_same(output: Any, run: Prepared, trace: Trace, flags: RichFlags) -> None:
    """Compare what generate() wrote with what the run did.

    Raises:
        DecodeError: they differ.
    """
    start, own = _start(run), run.target.model.generation_config
    padding = {own.pad_token_id, *trace.eos_token_ids}
    rows = [row[start:] for row in output.sequences.tolist()]
    wanted = [list(entry.token_ids) for entry in trace.outputs]
    parts = [_parts(row, ids, padding) for row, ids in zip(rows, wanted, strict=False)]
    place = next((at for at in parts if at is not None), None)
    if place is None and len(rows) == len(wanted):
        return
    eager = (
        ": attention that shows its weights is summed in another order, so leave output_attentions out"
        if flags.output_attentions
        else ": they are to be had where it was made"
    )
    raise DecodeError(
        f"The run comes out otherwise here from token {(place or 0) + 1} on, so these would not be its outputs{eager}."
    )


def _parts(row: list[int], ids: list[int], padding: set[Any]) -> int | None:
    """Return at which token a row of generate() and a text part, None where only padding follows the text."""
    for at, (ours, theirs) in enumerate(zip(ids, row, strict=False)):
        if ours != theirs:
            return at
    if len(row) < len(ids) or not set(row[len(ids) :]) <= padding:
        return min(len(row), len(ids))
    return None


def _check_shows(loaded: LoadedModel, flags: RichFlags) -> None:
    if flags.output_attentions and isinstance(loaded.model, on_openvino.OnGraph):
        shown = f"{loaded.name} is computed by a graph of OpenVINO, which shows no attentions"
        raise ParameterError("output_attentions", True, shown, "leave it out")


def _check_complete(output: Any, loaded: LoadedModel, flags: RichFlags) -> None:
    """Refuse outputs of a model that does not show what its layers come to.

    Raises:
        ParameterError: naming the flag.
    """
    for flag in ("output_hidden_states", "output_attentions"):
        if not getattr(flags, flag):
            continue
        name = flag.removeprefix("output_")
        found = [steps for field, steps in output.items() if field.endswith(name)]
        layers = [layer for steps in found for step in steps for layer in _layers(step)]
        if not layers or any(layer is None for layer in layers):
            raise ParameterError(
                flag, True, f"{loaded.name} does not show its {name}", "leave it out"
            )


def _layers(step: Any) -> tuple[Any, ...]:
    """Return the tensors of one step, or the one of an encoder's layer; None stands for what is not shown."""
    if step is None or isinstance(step, torch.Tensor):
        return (step,)
    return tuple(step) or (None,)
