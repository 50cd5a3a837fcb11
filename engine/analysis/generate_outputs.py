"""transformers' outputs of a recorded run: scores, logits, hidden states and attentions.

transformers' generate() repeats the run from its request and seed, with the flags that return these
outputs. They are returned only if the tokens equal those of the run.
"""

# pyright: reportUnknownMemberType=false
# transformers says nothing about the fields of a GenerationConfig.
from __future__ import annotations

import dataclasses
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from engine.analysis.generate_outputs_flags import (
    OutputFlags,
    check_has_outputs,
    check_model_matches,
    count_passes,
    is_ended_early,
)
from engine.analysis.generate_outputs_sizes import check_size
from engine.analysis.thread_generator import use_generator
from engine.errors import Cancelled, DecodeError, ParameterError
from engine.messages import Message
from engine.models.loading import LoadedModel, pin_models
from engine.models.model_types import Outputs
from engine.models.model_views import build_generation_view
from engine.models.openvino import model as on_openvino
from engine.run.preparation import ModelLoader, Prepared, prepare
from engine.run.request import check_request, request_from_trace
from engine.run.run import generate_arguments, get_generate
from engine.run.scheduler import EventCallback, ignore_event, wait_for_turn
from engine.run.stop_criterion import StopCriterion
from engine.run.torch_threads import lift_thread_limit, limit_torch_threads
from engine.settings import SETTINGS
from engine.strategies.drafting_params import draft_model_settings
from engine.timing_noise import work_time
from engine.trace.records import Trace


def rerun_generate(
    trace: Trace,
    model: LoadedModel | None = None,
    *,
    assistant: LoadedModel | None = None,
    output_scores: bool = True,
    output_logits: bool = False,
    output_hidden_states: bool = False,
    output_attentions: bool = False,
    cancelled: threading.Event | None = None,
    tell: EventCallback | None = None,
) -> Any:
    """Repeat a run with generate(), ``return_dict_in_generate`` and these flags; return its output.

    A stopped run is repeated up to its last token. Attentions require eager attention for the whole
    run, so its other numbers may differ in their last digits from those without attentions.

    Args:
        trace: the run; its steps are not needed.
        model: the model of the run; None loads it by name, in the run's weight format.
        assistant: the draft model of the run; None loads it likewise.
        output_scores: see ``OutputFlags``.
        output_logits: see ``OutputFlags``.
        output_hidden_states: see ``OutputFlags``.
        output_attentions: see ``OutputFlags``.
        cancelled: stops the run when set.
        tell: receives Waiting and Loading events.

    Returns:
        A GenerateDecoderOnlyOutput, GenerateEncoderDecoderOutput, GenerateBeamDecoderOnlyOutput or
        GenerateBeamEncoderDecoderOutput.

    Raises:
        Cancelled: `cancelled` was set.
        EngineError: transformers cannot produce these outputs, they would be too large, or the
            repeated run has other tokens on this machine.
    """
    flags = OutputFlags(
        output_scores=output_scores,
        output_logits=output_logits,
        output_hidden_states=output_hidden_states,
        output_attentions=output_attentions,
    )
    check_has_outputs(trace)
    cancelled, tell = cancelled or threading.Event(), tell or ignore_event
    run = prepare(
        check_request(request_from_trace(trace, model, assistant)), ModelLoader(cancelled, tell)
    )
    target = run.target
    check_model_matches(trace, target)
    _check_has_attentions(target, flags)
    check_size(trace, flags, target)
    with ExitStack() as held:
        held.enter_context(pin_models(target, run.assistant))
        held.enter_context(_wait_for_turn(run, flags, cancelled, tell))
        output = _call_generate(run, trace, flags, cancelled)
    _check_same_tokens(output, run, trace, flags)
    _check_complete(output, target, flags)
    return output


@contextmanager
def _wait_for_turn(
    run: Prepared, flags: OutputFlags, cancelled: threading.Event, tell: EventCallback
) -> Generator[None]:
    """Hold a turn in the queue for the models of a run, with the threads that they take."""
    kind = ("rich", run.target.name, *flags.enabled_names())
    size = float(run.config.max_new_tokens)
    models = run.target, run.assistant
    with (
        wait_for_turn(cancelled, *models, tell=tell, kind=kind, size=size) as place,
        limit_torch_threads(*models),
    ):
        place.lift_limits = lift_thread_limit
        yield


class _StopAtLength:
    """Stopping criterion for a stopped run: ends all rows at a given length."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __call__(
        self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any
    ) -> torch.Tensor:
        """Return a (batch,) bool tensor, True once the ids have the length."""
        del scores, kwargs
        stop = input_ids.shape[1] >= self.length
        return torch.full((input_ids.shape[0],), stop, device=input_ids.device, dtype=torch.bool)


def _call_generate(
    run: Prepared, trace: Trace, flags: OutputFlags, cancelled: threading.Event
) -> Any:
    """Call generate() with the arguments of the run and return its output object."""
    target, config = run.target, run.config
    stop = StopCriterion(cancelled, work_time() + SETTINGS.max_runtime_s)
    stopping: list[Any] = [stop]
    if is_ended_early(trace):
        stopping.append(_StopAtLength(_text_start(run) + count_passes(trace)))
    prompt = torch.tensor([run.prompt_ids], device=target.device)
    arguments = generate_arguments(run, config, prompt, stopping)
    wanted = {"return_dict_in_generate": True, **dataclasses.asdict(flags)}
    for name, value in wanted.items():
        setattr(arguments["generation_config"], name, value)
    model, drafting = _select_models(run, flags)
    if run.assistant is not None:
        arguments["assistant_model"] = drafting
        if run.strategy.assistant == "any_tokenizer":
            arguments["tokenizer"] = target.tokenizer
            arguments["assistant_tokenizer"] = run.assistant.tokenizer
    # transformers reads the drafting options from the drafting model's own configuration.
    for name, value in draft_model_settings(config).items():
        setattr(drafting.generation_config, name, value)
    generator = torch.Generator(target.device).manual_seed(run.request.seed)
    try:
        with torch.no_grad(), use_generator(generator):
            output = get_generate(target)(model, **arguments)
    except (ValueError, NotImplementedError) as error:
        if cancelled.is_set():
            raise Cancelled from None
        raise DecodeError(
            "transformers' generate() refuses this run: {why}.",
            why=repr(str(error).splitlines()[0][:200]),
        ) from None
    if cancelled.is_set():
        raise Cancelled
    if stop.expired:
        raise DecodeError(
            "Making the run again took more than the {limit} seconds that a run may take.",
            limit=f"{SETTINGS.max_runtime_s:g}",
        )
    return output


def _select_models(run: Prepared, flags: OutputFlags) -> tuple[Any, Any]:
    """Return the model that generates and the model whose configuration controls drafting."""
    # sdpa keeps no attention weights. A twin shares the weights and leaves the loaded model as it is.
    attention = "eager" if flags.output_attentions else None
    model = build_generation_view(run.target.model, attention)
    return model, model if run.assistant is None else build_generation_view(
        run.assistant.model, attention
    )


def _text_start(run: Prepared) -> int:
    """Return the number of ids before the new text in the sequences that generate() returns."""
    return 1 if run.target.is_encoder_decoder else len(run.prompt_ids)


def _check_same_tokens(output: Outputs, run: Prepared, trace: Trace, flags: OutputFlags) -> None:
    """Compare the tokens of generate() with those of the run.

    Raises:
        DecodeError: they differ.
    """
    start, own = _text_start(run), run.target.model.generation_config
    padding: set[int | None] = {own.pad_token_id, *trace.eos_token_ids}
    rows = [row[start:] for row in output.sequences.tolist()]
    wanted = [list(entry.token_ids) for entry in trace.outputs]
    # Not strict: another number of rows is one of the differences to report.
    parts = [_first_difference(row, ids, padding) for row, ids in zip(rows, wanted, strict=False)]
    place = next((at for at in parts if at is not None), None)
    if place is None and len(rows) == len(wanted):
        return
    first = (place or 0) + 1
    if flags.output_attentions:
        raise DecodeError(
            "The run comes out otherwise here from token {place} on, so these would not be its "
            "outputs: attention that shows its weights is summed in another order, so leave "
            "output_attentions out.",
            place=first,
        )
    raise DecodeError(
        "The run comes out otherwise here from token {place} on, so these would not be its "
        "outputs: they are to be had where it was made.",
        place=first,
    )


def _first_difference(row: list[int], ids: list[int], padding: set[int | None]) -> int | None:
    """Return the first index where `row` and `ids` differ; None if only padding follows `ids`."""
    for at, (ours, theirs) in enumerate(zip(ids, row, strict=False)):
        if ours != theirs:
            return at
    if len(row) < len(ids) or not set(row[len(ids) :]) <= padding:
        return min(len(row), len(ids))
    return None


def _check_has_attentions(loaded: LoadedModel, flags: OutputFlags) -> None:
    if flags.output_attentions and isinstance(loaded.model, on_openvino.GraphModelMixin):
        shown = Message(
            "{name} is computed by a graph of OpenVINO, which shows no attentions", name=loaded.name
        )
        raise ParameterError("output_attentions", True, shown, "leave it out")


def _check_complete(output: Outputs, loaded: LoadedModel, flags: OutputFlags) -> None:
    """Check that the model returned every hidden state and attention that was requested.

    Raises:
        ParameterError: some are missing; the error names the flag.
    """
    for flag in ("output_hidden_states", "output_attentions"):
        if not getattr(flags, flag):
            continue
        name = flag.removeprefix("output_")
        fields: dict[str, Any] = {**output}
        found = [steps for field, steps in fields.items() if field.endswith(name)]
        layers = [layer for steps in found for step in steps for layer in _layer_tensors(step)]
        if not layers or any(layer is None for layer in layers):
            raise ParameterError(
                flag,
                True,
                Message("{name} does not show its {outputs}", name=loaded.name, outputs=name),
                "leave it out",
            )


def _layer_tensors(step: Any) -> tuple[Any, ...]:
    """Return the layer tensors of one step, or one encoder layer's; None for a missing tensor."""
    if step is None or isinstance(step, torch.Tensor):
        return (step,)
    return tuple(step) or (None,)
