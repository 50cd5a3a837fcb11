"""One run in its worker thread: validates, waits for its turn, decodes and records."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol

import torch
import transformers

from engine.loops.recorder import Recorder
from engine.messages import Message
from engine.model_code import GENERATE, ModelCall, ModelWork
from engine.models import cuda_graphs, slots
from engine.models.loading import LoadedModel, pin_models
from engine.models.model_views import copy_without_defaults
from engine.run.batching import BatchedRuns, run_batched
from engine.run.caller_objects import StreamerFeed, has_caller_objects
from engine.run.custom_generate import as_custom_generate
from engine.run.generation import (
    generate_inputs,
    generation_config,
    processors_argument,
    stop_criteria,
)
from engine.run.preparation import (
    ModelLoader,
    Prepared,
    fetch_request_method,
    has_loaded_models,
    named_models,
    parse_models,
    prepare,
)
from engine.run.recording import Recording, RunObserver
from engine.run.request import CheckedRequest, DecodeRequest, check_request
from engine.run.returned_rows import cut_at_eos, extract_sequences, format_missing_sequences
from engine.run.sandboxed_run import open_sandbox, run_method, sandbox_notes
from engine.run.scheduler import RUN_QUEUE
from engine.run.stop_criterion import StopCriterion
from engine.run.teacher_forced_check import rescore_outputs
from engine.run.ticket import Ticket
from engine.run.torch_threads import lift_thread_limit, limit_torch_threads
from engine.sandbox.sandbox_parent import SandboxProcess
from engine.settings import SETTINGS
from engine.strategies.base import Context
from engine.strategies.compatibility import check_judges_drafts, uses_cache
from engine.strategies.shared_params import NextTokenParams
from engine.trace.events import Event
from engine.trace.records import Step, Trace

EventCallback = Callable[[Event], None]
GRAPHED_NOTE = (
    "Passes over one token were repeated from CUDA graphs, over a cache of {n} positions that are "
    "masked until they are written: a sum may differ in its last digit from that of a growing cache."
)


class Turn(Protocol):
    """What decoding needs of the run's place in the queue."""

    @property
    def waited_s(self) -> float:
        """Seconds that it has waited for its turns so far."""
        ...

    def give_way(self) -> None:
        """Let other runs take a turn between two steps."""


class Run:
    """Executes one request and sends its events.

    Args:
        request: as the user made it.
        send: receives each event; raises Cancelled if the reader has left.
        cancelled: set by the reader to stop the run.
        witness: observes the run, None for no observer.
    """

    def __init__(
        self,
        request: DecodeRequest,
        send: Callable[[Event], None],
        cancelled: threading.Event,
        witness: RunObserver | None = None,
    ) -> None:
        self.request, self.send, self.cancelled = request, send, cancelled
        self.witness = witness
        self.recording: Recording | None = None

    def execute(self) -> None:
        """Validate, wait, load, wait, decode, finish.

        Raises:
            EngineError: an error that the user can act on.
            Cancelled: the run was stopped before it decoded.
        """
        checked = parse_models(check_request(self.request))
        kind = (checked.strategy.name, *(model.name for model in checked.models))
        size = float(checked.config.max_new_tokens)
        models = ModelLoader(self.cancelled, self.send)
        named = ModelWork(strategy=checked.strategy.title)
        with named, RUN_QUEUE.open_ticket(self.cancelled, self.send, kind, size) as ticket:
            # Before the first wait: tickets of one key are counted, admitted and started as one turn.
            ticket.batch_key, ticket.rows = batch_key(checked), checked.config.num_return_sequences
            # Downloads need no turn; tickets that arrive meanwhile go first.
            with ticket.release_turn():
                checked = fetch_request_method(checked, self.cancelled)
                models.fetch(named_models(checked))
            if ticket.position and has_loaded_models(checked):
                # Errors that the models would raise come now, not after the wait.
                prepare(checked)
            ticket.wait_to_load()
            run = prepare(checked, models)
            # Known only now that the model is loaded.
            if not slots.can_share_passes(run.target):
                ticket.batch_key = None
            with (
                # Before the turn comes: models that others load while this run waits would evict its own.
                pin_models(run.target, run.assistant),
                ticket.acquire_turn(run.target, run.assistant),
                limit_torch_threads(run.target, run.assistant),
                open_sandbox(run, self.send, self.cancelled) as (child, ready_s),
            ):
                load_s, ticket.lift_limits = models.load_s + ready_s, lift_thread_limit
                decode = partial(self._decode, run, ticket, load_s)
                try:
                    if ticket.batch_key is not None:
                        run_batched(run.target, ticket, decode, self.send)
                    elif run.method is None:
                        decode(self.send)
                    else:
                        recording = self._start_recording(run, ticket, load_s, self.send)
                        self._run_method(run, ticket, child, recording)
                finally:
                    if self.witness is not None:
                        self.witness.on_end()

    def partial_trace(self) -> Trace | None:
        """Return the steps recorded before a failure as a trace, None if there are none."""
        return None if self.recording is None else self.recording.partial_trace()

    def _start_recording(
        self, run: Prepared, ticket: Turn, load_s: float, send: EventCallback
    ) -> Recording:
        """Create the recording of a run after its waits."""
        self.recording = Recording(run, send, ticket.waited_s, load_s, self.witness)
        return self.recording

    def _decode(
        self,
        run: Prepared,
        ticket: Turn,
        load_s: float,
        send: EventCallback,
        batch: BatchedRuns | None = None,
    ) -> None:
        check_judges_drafts(run.strategy, run.target)
        recording = self._start_recording(run, ticket, load_s, send)
        watch = None if self.witness is None else self.witness.on_logits
        recorder, device = Recorder(self.request.top_candidates, watch), run.target.device
        # A batch gives way as a whole.
        give_way = ticket.give_way if batch is None else lambda: None

        def on_step(step: Step, number: int) -> None:
            recording.add(step, number)
            feed.put(step)
            give_way()

        def on_progress(event: Event) -> None:
            send(event)
            give_way()

        recorder.additions.tell = on_progress
        feed = StreamerFeed(self.request.streamer, run.prompt_ids)
        prompt = torch.tensor([run.prompt_ids], device=device)
        # Of the model's device: torch refuses to draw on a GPU with a generator of the CPU.
        generator = torch.Generator(device).manual_seed(self.request.seed)
        stop = StopCriterion(self.cancelled, recorder.started + SETTINGS.max_runtime_s)
        context = Context(run.config, run.target, run.assistant, prompt, recorder, generator)
        extra = {**run.strategy.prepare(context), "recorder": recorder, "generator": generator}
        count = run.config.num_return_sequences if run.strategy.one_by_one else 1
        results: list[list[int]] = []
        whole: list[bool] = []
        scores: list[float | None] = []
        for number in range(count):
            alone = {"num_return_sequences": 1} if count > 1 else {}
            config = dataclasses.replace(run.config, **alone)
            returned = call_generate(
                run,
                config,
                prompt,
                partial(on_step, number=number),
                stop,
                extra,
                batch,
            )
            rows, new_scores = extract_sequences(returned, run, set(recording.header.eos_token_ids))
            # A stop during an optional measurement finds a complete text: its reason is not "cancelled".
            whole += [recorder.additions.take_started_flag()] * len(rows)
            results += rows
            scores += new_scores
        late = Message("The run reached the limit of {s} seconds.", s=f"{SETTINGS.max_runtime_s:g}")
        ended = not (self.cancelled.is_set() or stop.expired)
        fewer = format_missing_sequences(scores, run.config.num_return_sequences) if ended else ()
        notes = (*recorder.additions.notes, *fewer, *((late,) if stop.expired else ()))
        feed.end()
        recording.set_queue_time(ticket.waited_s)
        recording.end(results, scores, whole, partial(self._finish_reason, recording.header), notes)

    def _run_method(
        self, run: Prepared, ticket: Ticket, child: SandboxProcess | None, recording: Recording
    ) -> None:
        """Run a custom method, then score its texts with the model."""

        def on_step(step: Step) -> None:
            recording.add(step, 0)
            ticket.give_way(nullcontext if child is None else child.paused)

        ended = run_method(run, child, on_step, ticket)
        recording.set_queue_time(ticket.waited_s)
        ends = set(recording.header.eos_token_ids)
        rows = [cut_at_eos(row, ends) for row in ended.sequences]
        emitted, notes = rescore_outputs(run, recording, rows)
        notes = (*sandbox_notes(child), *ended.notes, *notes)
        reason = partial(self._finish_reason, recording.header)
        whole = [ended.whole] * len(rows)
        recording.end(rows, [None] * len(rows), whole, reason, notes, emitted)

    def _finish_reason(self, header: Trace, ids: list[int], whole: bool) -> str:
        """Return one of FINISH_REASONS; a whole text was complete before the stop."""
        if ids and ids[-1] in header.eos_token_ids:
            return "eos"
        if self.cancelled.is_set() and not whole:
            return "cancelled"
        return "length" if len(ids) >= header.config["max_new_tokens"] else "stop"


def batch_key(checked: CheckedRequest) -> Hashable:
    """Return the batch key: runs with equal keys may share passes; None shares none."""
    # Runs share passes, not processors: these may differ in every parameter and still have one key.
    strategy, config, model = checked.strategy, checked.config, checked.request.model
    # A user's callable may be slow, and every run of the batch would wait for it.
    foreign = callable(config.prefix_allowed_tokens_fn) if strategy.shares else True
    foreign = foreign or bool(checked.media) or has_caller_objects(checked.request)
    if foreign or SETTINGS.max_shared_runs < 2:
        return None
    # The weights belong to the key: one name may be in memory in several precisions. An object counts by
    # its identity, because two may have one name.
    named = id(model) if isinstance(model, LoadedModel) else model or strategy.default_model
    return named, checked.weights[0]


def call_generate(
    run: Prepared,
    config: NextTokenParams,
    prompt: torch.Tensor,
    on_step: Callable[[Step], None],
    stop: StopCriterion,
    extra: dict[str, Any],
    batch: BatchedRuns | None = None,
) -> Any:
    """Call transformers' generate() with the strategy's loop.

    Args:
        run: the prepared run.
        config: the strategy's config for this call.
        prompt: (1, length) ids.
        on_step: called with every step.
        stop: ends the loop.
        extra: keyword arguments of the loop; ``logits_processor`` is passed to generate() instead.
        batch: the batch of runs that share passes, None to decode alone.
    """
    target, loop = run.target, run.strategy.loop
    assert loop is not None
    target.forget_passes()  # of this run's earlier sequences, too
    arguments = generate_arguments(run, config, prompt, [stop, *run.request.stopping_criteria])
    own = {name: value for name, value in extra.items() if name != "logits_processor"}
    graphed = nullcontext()
    if batch is not None:
        arguments["past_key_values"] = batch.create_cache()
    elif run.strategy.one_shape and arguments["generation_config"].use_cache and not run.inputs:
        rows, length = count_batch_rows(run, config), prompt.shape[1] + config.max_new_tokens
        graphed = cuda_graphs.lend_cuda_graph_cache(target, rows, length)
    further = [*extra.get("logits_processor", ()), *run.request.logits_processor]
    if further:
        rules = [*arguments.get("logits_processor", ()), *further]
        arguments["logits_processor"] = transformers.LogitsProcessorList(rules)
    # generate() only uses no_grad; inference mode also skips version counters and is faster.
    exact = torch.inference_mode(not _has_offloaded_weights(run))
    with graphed as cache, exact, ModelCall(GENERATE, target.name):
        if cache is not None:
            arguments["past_key_values"] = cache
            extra["recorder"].additions.add_note(Message(GRAPHED_NOTE, n=cache.get_max_length()))
        return get_generate(target)(
            # A copy without generation defaults: a repository's own settings must not change a run.
            copy_without_defaults(target.model),
            **arguments,
            custom_generate=as_custom_generate(loop, on_step, **own),
        )


def get_generate(loaded: LoadedModel) -> Callable[..., Any]:
    """Return a model's generate(): its class's, as a model folder may have replaced the instance's.

    Speech models use the common one: theirs cuts long sounds into windows.
    """
    speaks = loaded.reader is not None and loaded.reader.family.is_speech_model
    owner: Any = transformers.GenerationMixin if speaks else type(loaded.model)
    return owner.generate


def prompt_arguments(
    target: LoadedModel, prompt: torch.Tensor, inputs: Mapping[str, torch.Tensor]
) -> dict[str, Any]:
    """Return the arguments of generate() that hold the prompt and further inputs.

    Args:
        target: the model.
        prompt: (1, length) ids.
        inputs: from an image or a sound, see ``Prepared``.
    """
    # The encoder reads an image or a sound, so the prompt begins the decoder's text.
    if target.model.config.is_encoder_decoder and not target.is_encoder_decoder:
        return {"decoder_input_ids": prompt, **inputs}
    # Without a mask generate() masks every token of the prompt that equals the padding token.
    return {"inputs": prompt, "attention_mask": torch.ones_like(prompt), **inputs}


def build_rules(
    checked: CheckedRequest,
    config: NextTokenParams,
    target: LoadedModel,
    ids: Sequence[int],
    own: Sequence[Any],
) -> list[Any]:
    """Return the first logits processors of a run: those of a media model's own generate(), then ``own``."""
    rules: list[Any] = []
    if target.reader is not None and checked.media:
        speech = checked.request.speech
        rules += target.reader.logits_processors(config, ids, speech, target.device)
    return [*rules, *own]


def generate_arguments(
    run: Prepared, config: NextTokenParams, prompt: torch.Tensor, stopping: Sequence[object]
) -> dict[str, Any]:
    """Return the arguments of generate() for a run, with our loop or without.

    Args:
        run: the prepared run.
        config: the strategy's config for this call.
        prompt: (1, length) ids.
        stopping: criteria to add to those of the config.
    """
    target = run.target
    use_cache = uses_cache(run.strategy, target.capabilities)
    rows, length = count_batch_rows(run, config), prompt.shape[1]
    select = run.strategy.generate_kwargs(config)
    own = [*run.grammars, *run.thinking]
    rules = build_rules(run.checked, config, target, run.prompt_ids, own)
    return {
        **prompt_arguments(target, prompt, run.inputs),
        **processors_argument(rules, config, select, target.eos_token_ids),
        "generation_config": generation_config(config, select, target, use_cache=use_cache),
        "stopping_criteria": [*stopping, *stop_criteria(config, target)],
        **generate_inputs(config, target, rows, length, use_cache=use_cache),
    }


def count_batch_rows(run: Prepared, config: NextTokenParams) -> int:
    """Return the rows of the batch that generate() builds: beams, or returned sequences."""
    select = run.strategy.generate_kwargs(config)
    return max(select.get("num_beams", 1) or 1, config.num_return_sequences)


def _has_offloaded_weights(run: Prepared) -> bool:
    """Return whether a model has offloaded layers.

    Loaded in inference mode, such layers would sum in another order.
    """
    return any(getattr(model, "hf_device_map", None) is not None for model in run.models)
