"""One run in its worker thread: load, prepare, generate, record, and put the trace together."""

from __future__ import annotations

import dataclasses
import platform
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from engine.declare.config import as_dict
from engine.errors import DecodeError
from engine.loops.recorder import Recorder, rounded
from engine.models.loading import LoadedModel, load, pinned
from engine.models.text import Detokenizer, decode_ids
from engine.reading import metrics
from engine.run.adapter import as_custom_generate
from engine.run.generation import generate_inputs, generation_config, stop_criteria
from engine.run.permits import running
from engine.run.request import CheckedRequest, DecodeRequest, check, fit_to_model, prompt_ids_of
from engine.settings import SETTINGS
from engine.strategies.base import Context
from engine.trace.events import Event, Finished, Started, StepRecorded, TextDelta
from engine.trace.records import Output, Step, Timing, Trace


class StopWhen:
    """A stopping criterion: cancelled, or past the wall-clock limit."""

    def __init__(self, cancelled: threading.Event, deadline: float) -> None:
        self.cancelled, self.deadline = cancelled, deadline
        self.expired = False

    def __call__(self, input_ids: torch.Tensor, scores: Any, **kwargs: Any) -> torch.Tensor:
        """Return (batch,) True everywhere when the run must end."""
        del scores, kwargs
        self.expired = self.expired or time.perf_counter() > self.deadline
        stop = self.cancelled.is_set() or self.expired
        return torch.full((input_ids.shape[0],), stop, device=input_ids.device, dtype=torch.bool)


class Run:
    """Executes one request and sends its events.

    Args:
        request: as the user made it.
        send: takes each event; raises Cancelled when nobody listens any more.
        cancelled: set by the reader to stop the loop.
    """

    def __init__(
        self, request: DecodeRequest, send: Callable[[Event], None], cancelled: threading.Event
    ) -> None:
        self.request, self.send, self.cancelled = request, send, cancelled
        self.created = time.perf_counter()
        self.header: Trace | None = None
        self.steps: list[Step] = []
        self.outputs: dict[int, list[int]] = {}
        self.texts: dict[int, Detokenizer] = {}
        self.pieces: dict[int, str] = {}
        self.first_token_s: float | None = None
        self.queue_s = 0.0

    def execute(self) -> None:
        """Validate, load, decode, finish.

        Raises:
            EngineError: what the user can act on.
        """
        checked = check(self.request)
        target = _as_loaded(self.request.model, checked.strategy.default_model)
        assistant = self._assistant(checked)
        checked = fit_to_model(checked, target)
        ids = prompt_ids_of(checked, target)
        checked = _fit_length(checked, target, len(ids))
        waiting = time.perf_counter()
        with pinned(target, assistant), running(self.cancelled, target, assistant):
            self.queue_s = time.perf_counter() - waiting
            self._start(checked, target, assistant, ids)
            self._decode(checked, target, assistant, ids)

    def partial_trace(self) -> Trace | None:
        """Return what was recorded before a failure, None when nothing was."""
        if self.header is None or not self.steps:
            return None
        outputs = tuple(self._output(s, ids, "error") for s, ids in sorted(self.outputs.items()))
        return self._trace(outputs)

    def _assistant(self, checked: CheckedRequest) -> LoadedModel | None:
        if checked.strategy.assistant == "none":
            return None
        return _as_loaded(self.request.assistant, checked.strategy.default_assistant)

    def _start(
        self,
        checked: CheckedRequest,
        target: LoadedModel,
        assistant: LoadedModel | None,
        ids: list[int],
    ) -> None:
        self.target = target
        self.pieces = target.pieces.of(ids)
        self.header = Trace(
            strategy=checked.strategy.name,
            config=as_dict(checked.config),
            model=target.info(),
            versions=versions(),
            seed=self.request.seed,
            prompt=self.request.prompt,
            prompt_ids=tuple(ids),
            pieces=dict(self.pieces),
            steps=(),
            outputs=(),
            assistant=assistant.info() if assistant else None,
            eos_token_ids=tuple(checked.config.eos_token_id or target.eos_token_ids),
            notes=checked.notes,
            parent=self.request.parent,
        )
        self.send(Started(self.header))

    def _decode(
        self,
        checked: CheckedRequest,
        target: LoadedModel,
        assistant: LoadedModel | None,
        ids: list[int],
    ) -> None:
        self.recorder = Recorder(self.request.top_candidates)
        device = target.device
        prompt = torch.tensor([ids], device=device)
        generator = torch.Generator(device).manual_seed(self.request.seed)
        self.stop = StopWhen(self.cancelled, self.recorder.started + SETTINGS.max_runtime_s)
        context = Context(checked.config, target, assistant, prompt, self.recorder, generator)
        extra = checked.strategy.prepare(context)
        count = checked.config.num_return_sequences if checked.strategy.one_by_one else 1
        results: list[list[int]] = []
        scores: list[float | None] = []
        for number in range(count):
            single = dataclasses.replace(checked.config, num_return_sequences=1)
            config = single if count > 1 else checked.config
            returned = self._generate(checked, config, prompt, number, generator, extra)
            sequences, new_scores = self._returned(returned, target, len(ids))
            results += sequences
            scores += new_scores
        self._finish(results, scores)

    def _generate(
        self,
        checked: CheckedRequest,
        config: Any,
        prompt: torch.Tensor,
        number: int,
        generator: torch.Generator,
        extra: dict[str, Any],
    ) -> Any:
        strategy, target = checked.strategy, self.target
        select = strategy.generate_kwargs(config)
        rows = max(select.get("num_beams", 1) or 1, config.num_return_sequences)
        inputs = generate_inputs(config, target, rows, prompt.shape[1])
        processors = extra.get("logits_processor")
        own = {k: v for k, v in extra.items() if k != "logits_processor"}
        custom = as_custom_generate(
            strategy.loop,
            lambda step: self._on_step(step, number),
            recorder=self.recorder,
            generator=generator,
            **own,
        )
        if processors:
            inputs["logits_processor"] = processors
        # type(model).generate: a model folder may have replaced the instance's own generate.
        return type(target.model).generate(
            target.model,
            prompt,
            attention_mask=torch.ones_like(prompt),
            generation_config=generation_config(config, select, target),
            custom_generate=custom,
            stopping_criteria=[self.stop, *stop_criteria(config, target)],
            **inputs,
        )

    def _on_step(self, step: Step, number: int) -> None:
        if self.first_token_s is None:
            self.first_token_s = rounded(time.perf_counter() - self.created)
        step = dataclasses.replace(step, index=len(self.steps), sequence=step.sequence + number)
        self.steps.append(step)
        output = self.outputs.setdefault(step.sequence, [])
        output[step.keep :] = step.emit
        new = {i: self.target.pieces[i] for i in _ids_in(step) if i not in self.pieces}
        self.pieces |= new
        self.send(StepRecorded(step, new))
        text = self.texts.setdefault(step.sequence, Detokenizer(self.target.tokenizer))
        self._send_text(step.sequence, text.update(output))

    def _send_text(self, sequence: int, delta: tuple[int, str] | None) -> None:
        if delta is not None:
            self.send(TextDelta(sequence, *delta))

    def _returned(
        self, returned: Any, target: LoadedModel, prompt_length: int
    ) -> tuple[list[list[int]], list[float | None]]:
        """Return the new tokens of every sequence, padding cut, and the loop's scores."""
        sequences = getattr(returned, "sequences", returned)
        start = 1 if target.is_encoder_decoder else prompt_length
        eos = set(self.header.eos_token_ids) if self.header else set()
        lengths = getattr(returned, "lengths", None)
        rows = [row[start:] for row in sequences.tolist()]
        # A beam's padding may be the end mark itself: the loop says where each sequence ends.
        rows = (
            [_until_eos(row, eos) for row in rows]
            if lengths is None
            else [row[:length] for row, length in zip(rows, lengths, strict=True)]
        )
        scores = getattr(returned, "sequences_scores", None)
        return rows, [None] * len(rows) if scores is None else [rounded(s) for s in scores.tolist()]

    def _finish(self, results: list[list[int]], scores: list[float | None]) -> None:
        for sequence, ids in enumerate(results):
            detokenizer = self.texts.setdefault(sequence, Detokenizer(self.target.tokenizer))
            recorded = self.outputs.get(sequence)
            if recorded is not None and recorded != ids[: len(recorded)]:
                raise DecodeError("The recorded steps disagree with the returned tokens.")
            self._send_text(sequence, detokenizer.update(ids, final=True))
        outputs = tuple(
            dataclasses.replace(self._output(s, ids, self._reason(ids)), score=score)
            for s, (ids, score) in enumerate(zip(results, scores, strict=True))
        )
        self.send(Finished(self._trace(outputs)))

    def _reason(self, ids: list[int]) -> str:
        header = self.header
        if ids and header and ids[-1] in header.eos_token_ids:
            return "eos"
        if self.cancelled.is_set():
            return "cancelled"
        return "length" if header and len(ids) >= header.config["max_new_tokens"] else "stop"

    def _output(self, sequence: int, ids: list[int], reason: str) -> Output:
        del sequence
        return Output(tuple(ids), decode_ids(self.target.tokenizer, ids), reason)

    def _trace(self, outputs: tuple[Output, ...]) -> Trace:
        assert self.header is not None
        ids = {i for output in outputs for i in output.token_ids}
        self.pieces |= self.target.pieces.of(ids)
        notes = self.header.notes
        if self.stop.expired:
            notes += (f"The run reached the limit of {SETTINGS.max_runtime_s:g} seconds.",)
        trace = dataclasses.replace(
            self.header,
            pieces=dict(self.pieces),
            steps=tuple(self.steps),
            outputs=outputs,
            timing=Timing(
                # Until the last decision: what a strategy checks afterwards is not decoding time.
                total_s=max((step.elapsed_s for step in self.steps), default=0.0),
                first_token_s=self.first_token_s,
                load_s=self.target.load_s,
                queue_s=rounded(self.queue_s),
            ),
            notes=notes,
        )
        return dataclasses.replace(trace, metrics=metrics.of(trace))


def _as_loaded(model: Any, default: str | None) -> LoadedModel:
    if isinstance(model, LoadedModel):
        return model
    return load(default if model is None else model)


def _fit_length(checked: CheckedRequest, target: LoadedModel, prompt_length: int) -> CheckedRequest:
    """Cut max_new_tokens to what the model's context leaves, and say so."""
    context = target.context_length
    config = checked.config
    if context is None or prompt_length + config.max_new_tokens <= context:
        return checked
    room = context - prompt_length
    note = (
        f"max_new_tokens = {config.max_new_tokens} was cut to {room}: the prompt has "
        f"{prompt_length} tokens and the model's context is {context}."
    )
    floor = min(config.min_new_tokens, room) if config.min_new_tokens else config.min_new_tokens
    config = dataclasses.replace(config, max_new_tokens=room, min_new_tokens=floor)
    return dataclasses.replace(checked, config=config, notes=(*checked.notes, note))


def _until_eos(ids: list[int], eos: set[int]) -> list[int]:
    end = next((i + 1 for i, token_id in enumerate(ids) if token_id in eos), len(ids))
    return ids[:end]


def _ids_in(step: Step) -> set[int]:
    """Return every token id a step names."""
    found = set(step.emit) | {c.token_id for c in step.candidates}
    return found | set(_detail_ids(step.detail))


_ID_NAMES = ("token_id", "final_token_id")
_ID_LISTS = ("token_ids", "context_ids", "green_candidates", "reencoded")
_PAIR_LISTS = ("residual", "top", "normed_top", "final_top", "contrast_top")


def _detail_ids(detail: Any) -> Any:
    if not dataclasses.is_dataclass(detail):
        return
    for field in dataclasses.fields(detail):
        value = getattr(detail, field.name)
        if field.name in _ID_NAMES:
            yield value
        elif field.name in _ID_LISTS:
            yield from value
        elif field.name in _PAIR_LISTS:
            yield from (pair[0] for pair in value)
        elif isinstance(value, tuple):
            for item in value:
                yield from _detail_ids(item)
        else:
            yield from _detail_ids(value)


def versions() -> dict[str, str]:
    """Return the versions a run depends on."""
    import transformers

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
