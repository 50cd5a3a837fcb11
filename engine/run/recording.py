"""Records one run: stores and sends every step, and builds the Trace at the end."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import torch

from engine.declare.config import config_to_dict
from engine.errors import DecodeError
from engine.loops.optional_measurements import OptionalMeasurements
from engine.loops.recorder import round_decimals
from engine.models.model_types import Processors
from engine.models.text import Detokenizer, OutputDecoder
from engine.run.caller_objects import describe_caller_objects
from engine.run.chat_request import resolve_template
from engine.run.grammar_notes import incomplete_notes
from engine.run.grammar_record import record_grammar
from engine.run.preparation import Prepared
from engine.run.thinking_record import record_thinking
from engine.statistics import metrics
from engine.trace.events import Event, Finished, Started, StepRecorded, TextDelta
from engine.trace.records import EmittedToken, Output, Step, Timing, Trace
from engine.trace.value_types import TOKEN_ID, iter_values


class RunObserver(Protocol):
    """Observes a run from its worker thread, so that questions can be answered later."""

    def on_start(self, run: Prepared, header: Trace) -> None:
        """Called when the run's turn comes; the header is its trace before the first step."""
        ...

    def on_logits(
        self, logits: torch.Tensor, input_ids: torch.Tensor, processors: Processors
    ) -> None:
        """Called with the logits before any processor; see ``recorder.ObservationListener``."""
        ...

    def on_step(self, step: Step) -> None:
        """Called with every step, numbered as in the trace, after the logits it was decided from.

        The last step may come twice, the second time with an optional measurement.
        """
        ...

    def on_end(self) -> None:
        """Called once at the end, however the run ended."""
        ...


class Recording:
    """Collects the steps of a prepared run and sends them.

    Args:
        run: the prepared run.
        send: receives each event; raises Cancelled if the reader has left.
        queue_s: seconds the run waited for its turn.
        load_s: seconds it waited for its models.
        witness: observes every step, None for no observer.
    """

    def __init__(
        self,
        run: Prepared,
        send: Callable[[Event], None],
        queue_s: float,
        load_s: float,
        witness: RunObserver | None = None,
    ) -> None:
        self.run, self.target, self.send = run, run.target, send
        self.pieces = run.target.pieces.of(run.prompt_ids)
        read_apart = run.target.is_encoder_decoder
        # Decoded after its prompt: alone, a text of sentencepiece's tokenizers loses its first space.
        before = () if read_apart else run.prompt_ids
        self.reader = OutputDecoder(run.target.tokenizer, before, run.request.prompt)
        self.header = _build_header(run, self.pieces)
        self.steps: list[Step] = []
        self._last = (-1, -1)
        self.outputs: dict[int, list[int]] = {}
        self.texts: dict[int, Detokenizer] = {}
        self.timing = Timing(load_s=round_decimals(load_s), queue_s=round_decimals(queue_s))
        self.witness = witness
        if witness is not None:
            witness.on_start(run, self.header)
        send(Started(self.header))

    def add(self, step: Step, number: int) -> None:
        """Store and send a step.

        A step that comes twice replaces itself, with an optional measurement. It was sent already,
        so the second one is only stored for the trace.

        Args:
            step: with the loop's own index and sequence number.
            number: sequences decoded before this loop started.
        """
        # A loop may yield its last step again with a measurement, which replaces it.
        own = number, step.index
        again, self._last = own == self._last, own
        index = len(self.steps) - again
        if number or step.index != index:
            step = dataclasses.replace(step, index=index, sequence=step.sequence + number)
        self.steps[index:] = [step]
        if self.witness is not None:
            self.witness.on_step(step)
        new = self._add_new_pieces(step)
        if again:
            return
        if self.timing.first_token_s is None:
            # Counted from the start of decoding: loading and waiting have figures of their own.
            self.timing = dataclasses.replace(self.timing, first_token_s=step.elapsed_s)
        # A step may replace earlier tokens: beams and drafts go back to step.keep.
        output = self.outputs.setdefault(step.sequence, [])
        output[step.keep :] = step.emit
        self.send(StepRecorded(step, new))
        self._send_text(step.sequence, output, kept=step.keep)

    def set_queue_time(self, queue_s: float) -> None:
        """Set the seconds that the run waited for its turns, with pauses for other runs."""
        self.timing = dataclasses.replace(self.timing, queue_s=round_decimals(queue_s))

    def end(
        self,
        results: list[list[int]],
        scores: list[float | None],
        whole: Sequence[bool],
        reason: Callable[[list[int], bool], str],
        notes: tuple[str, ...],
        emitted: tuple[tuple[EmittedToken, ...], ...] = (),
    ) -> None:
        """Send the rest of the texts, and the trace.

        Args:
            results: new tokens of every returned sequence.
            scores: the loop's score of each.
            whole: whether each text was complete before optional measurements began.
            reason: returns the finish reason for (ids, whole).
            notes: sentences to add to those of the request.
            emitted: scores of a custom method's tokens, from one pass over each sequence.

        Raises:
            DecodeError: the returned tokens differ from the recorded ones.
        """
        outputs = []
        ends = zip(results, scores, whole, strict=True)
        for sequence, (returned, score, ended) in enumerate(ends):
            ids = self._strip_padding(sequence, returned)
            self._send_text(sequence, ids, final=True)
            outputs.append(
                dataclasses.replace(self._build_output(ids, reason(ids, ended)), score=score)
            )
        texts = [output.token_ids for output in outputs]
        notes = (*notes, *incomplete_notes(self.run, texts))
        grammar = record_grammar(self.run, self.steps, texts)
        trace = self._build_trace(outputs, notes, emitted)
        self.send(Finished(dataclasses.replace(trace, grammar=grammar)))

    def _strip_padding(self, sequence: int, ids: list[int]) -> list[int]:
        """Return a sequence's tokens without the padding that longer sequences of its batch add."""
        recorded = self.outputs.get(sequence)
        if recorded is None:
            return ids
        # What follows the recorded tokens can only be one token repeated: padding.
        if recorded != ids[: len(recorded)] or len(set(ids[len(recorded) :])) > 1:
            raise DecodeError("The recorded steps disagree with the returned tokens.")
        return recorded

    def partial_trace(self, reason: str = "error") -> Trace | None:
        """Return the recorded steps of a run without an end as a trace, None if there are none.

        Args:
            reason: one of FINISH_REASONS.
        """
        if not self.steps:
            return None
        return self._build_trace(
            [self._build_output(ids, reason) for _, ids in sorted(self.outputs.items())]
        )

    def _add_new_pieces(self, step: Step) -> dict[int, str]:
        """Return id -> text piece of the tokens that this step mentions first."""
        # Sent once per run: the page keeps the pieces that it got with earlier steps.
        new = {i: self.target.pieces[i] for i in collect_token_ids(step) if i not in self.pieces}
        self.pieces |= new
        return new

    def _send_text(
        self, sequence: int, ids: list[int], *, kept: int = 0, final: bool = False
    ) -> None:
        text = self.texts.setdefault(sequence, Detokenizer(self.reader))
        delta = text.update(ids, kept=kept, final=final)
        if delta is not None:
            self.send(TextDelta(sequence, *delta))

    def _build_output(self, ids: list[int], reason: str) -> Output:
        return Output(tuple(ids), self.reader.text(ids), reason)

    def _build_trace(
        self,
        outputs: Iterable[Output],
        notes: tuple[str, ...] = (),
        emitted: tuple[tuple[EmittedToken, ...], ...] = (),
    ) -> Trace:
        outputs = tuple(outputs)
        named = {i for output in outputs for i in output.token_ids}
        # check_trace refuses a file that names a token without its piece.
        named |= {i for tokens in emitted for token in tokens for i, _ in token.top}
        self.pieces |= self.target.pieces.of(named)
        trace = dataclasses.replace(
            self.header,
            pieces=dict(self.pieces),
            steps=tuple(self.steps),
            outputs=outputs,
            thinking=record_thinking(self.run, [output.token_ids for output in outputs]),
            # Up to the last decision: later checks of a strategy are not decoding time.
            timing=dataclasses.replace(
                self.timing, total_s=max((step.elapsed_s for step in self.steps), default=0.0)
            ),
            notes=(*self.header.notes, *notes),
            emitted=emitted,
        )
        additions = OptionalMeasurements()
        numbers = additions.measure(
            "The list of metrics", lambda: metrics.compute_metrics(trace), {}
        )
        return dataclasses.replace(trace, metrics=numbers, notes=(*trace.notes, *additions.notes))


def collect_token_ids(step: Step) -> set[int]:
    """Return the ids of all tokens that a step mentions."""
    # The same as values_of(step, TOKEN_ID), but far faster for the many candidates.
    named = {candidate.token_id for candidate in step.candidates}
    named.update(step.emit)
    named.update(token_id for _, token_id in iter_values(step.detail, TOKEN_ID))
    return named


def _build_header(run: Prepared, pieces: dict[int, str]) -> Trace:
    """Return the trace before the first step."""
    request, chat = run.request, run.checked.chat
    messages = request.messages
    conversation = (
        {}
        if chat is None or messages is None
        else {
            "messages": tuple(dict(message) for message in messages),
            "template": resolve_template(messages, request.template),
            "prompt_turns": chat.turns,
        }
    )
    return Trace(
        strategy=run.strategy.name,
        config=config_to_dict(run.config) | describe_caller_objects(request),
        model=run.target.info(),
        versions=library_versions(),
        seed=request.seed,
        prompt=request.prompt,
        prompt_ids=tuple(run.prompt_ids),
        pieces=dict(pieces),
        steps=(),
        outputs=(),
        assistant=run.assistant.info() if run.assistant else None,
        eos_token_ids=tuple(run.config.eos_token_id or run.target.eos_token_ids),
        special_token_ids=tuple(sorted(run.target.pieces.special)),
        notes=run.checked.notes,
        parent=request.parent,
        method=run.method.info() if run.method else None,
        media=run.checked.media.infos(),
        speech=dict(request.speech) or None,
        literal_tokens=run.checked.literal_tokens,
        **conversation,
    )


def library_versions() -> dict[str, str]:
    """Return the versions of Python, torch and transformers."""
    import transformers

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }
