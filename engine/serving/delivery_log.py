"""The delivered events of a run, to repeat it after a lost replica without duplicates.

A run is a function of its request, so a repetition has the same steps. Steps already delivered are
compared and dropped, so the reader sees only a pause. If a step differs, the run cannot continue.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from engine.messages import Message
from engine.statistics import metrics
from engine.trace.details import DrawDetail, WatermarkDetail
from engine.trace.events import Event, Failed, Finished, Started, StepRecorded, TextDelta
from engine.trace.records import Output, Step, Timing, Trace, replay_ids
from engine.trace.value_types import SECONDS, is_equal_except

_SECONDS_DIGITS = 6
_LOGPROB_TOLERANCE = 1e-3
"""Nats of a log-probability; shared passes differ by about 1e-5, other seeds by far more."""
_SHARED_PASS_DETAILS = (type(None), DrawDetail, WatermarkDetail)
"""Step details of the strategies whose runs share passes."""


class RunMismatch(Exception):
    """The repetition differs from what was delivered.

    Attributes:
        step: number of equal steps.
        events: all events of the repetition so far, the last batch included; none was forwarded.
    """

    def __init__(self, step: int, events: list[Event]) -> None:
        super().__init__(f"step {step} differs")
        self.step, self.events = step, events


class DeliveryLog:
    """The delivered part of one run, over any number of repetitions.

    Args:
        clock: returns seconds; only differences count.
        note: writes the trace's note on losses from the step counts at each; None is ``format_loss_note``.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        note: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        self._clock, self._note = clock, note or format_loss_note
        self._began = 0.0
        self._shift = 0.0
        self._at_step = self._at_text = 0
        self._now: list[Event] = []
        self._losses: list[int] = []
        self._pieces: dict[int, str] = {}
        self._owed: dict[int, str] = {}
        self._texts: list[TextDelta] = []
        self.header: Trace | None = None
        self.steps: list[Step] = []

    @classmethod
    def from_delivered(
        cls,
        header: Trace,
        steps: Iterable[Step] = (),
        texts: Iterable[TextDelta] = (),
        pieces: Mapping[int, str] | None = None,
        began_s: float | None = None,
        note: Callable[[Sequence[int]], str] | None = None,
    ) -> DeliveryLog:
        """Return the state of a run whose reader was lost as well; ``again`` was already called.

        Args:
            header: the trace of its Started event.
            steps: the delivered steps, in order.
            texts: the delivered text events, in order.
            pieces: token texts delivered with the steps.
            began_s: seconds since its Started event; None assumes no pause.
            note: as for the class.
        """
        repeat = cls(note=note)
        repeat.header, repeat.steps, repeat._texts = header, list(steps), list(texts)
        repeat._pieces = {**header.pieces, **(pieces or {})}
        if began_s is None:
            began_s = repeat.steps[-1].elapsed_s if repeat.steps else 0.0
        repeat._began = repeat._clock() - began_s
        repeat.restart()
        return repeat

    @property
    def has_started(self) -> bool:
        """Whether anything was delivered that a repetition must reproduce."""
        return self.header is not None

    @property
    def is_catching_up(self) -> bool:
        """Whether the repetition has not yet reached the end of what was delivered."""
        at = (self._at_step, self._at_text)
        return self.has_started and at != (len(self.steps), len(self._texts))

    def restart(self) -> None:
        """Begin a repetition: the next events are the same run from its start."""
        if self.has_started:
            self._losses.append(len(self.steps))
        self._at_step = self._at_text = 0
        self._owed = {}
        self._now.clear()

    def take_new(self, events: Iterable[Event]) -> list[Event]:
        """Take the run's next events; return those not delivered before.

        Raises:
            Differs: an event differs from what was delivered.
        """
        coming, new = list(events), []
        for number, event in enumerate(coming):
            try:
                new += self._take_event(event)
            except RunMismatch as differs:
                differs.events += coming[number + 1 :]
                raise
        return new

    def delivered_trace(self, finish_reason: str) -> Trace | None:
        """Return the delivered part as a finished trace, None without any step."""
        if self.header is None or not self.steps:
            return None
        outputs = tuple(
            self._build_output(sequence, finish_reason)
            for sequence in sorted({step.sequence for step in self.steps})
        )
        trace = dataclasses.replace(self.header, pieces=dict(self._pieces), outputs=outputs)
        return self._as_delivered(trace, tuple(self.steps))

    def _take_event(self, event: Event) -> Sequence[Event]:
        if self._losses:
            self._now.append(event)
        match event:
            case Started(header):
                return self._take_start(event, header)
            case StepRecorded():
                return self._take_step(event)
            case TextDelta():
                return self._take_text(event)
            case Finished(trace):
                self._check_complete()
                return [Finished(self._merge_trace(trace))] if self._losses else [event]
            case Failed(error, trace):
                if trace is not None and len(trace.steps) >= len(self.steps):
                    rest = self._merge_trace(trace)
                else:
                    rest = self.delivered_trace("error")
                return [Failed(error, rest)] if self._losses else [event]
        return [event]

    def _take_start(self, event: Started, header: Trace) -> Sequence[Event]:
        if self.header is None:
            self.header, self._began = header, self._clock()
            self._pieces = dict(header.pieces)
            return [event]
        if not is_equal_except(
            _comparable_header(header), _comparable_header(self.header), SECONDS
        ):
            raise RunMismatch(0, list(self._now))
        self._shift = self._clock() - self._began
        return []

    def _take_step(self, event: StepRecorded) -> Sequence[Event]:
        at, self._at_step = self._at_step, self._at_step + 1
        if at < len(self.steps):
            known = self._pieces
            other = {i for i, piece in event.pieces.items() if known.get(i, piece) != piece}
            if other or not is_same_step(event.step, self.steps[at]):
                raise RunMismatch(at, list(self._now))
            # A candidate tied with the last recorded one: its text goes with the next new step.
            self._owed |= {i: piece for i, piece in event.pieces.items() if i not in known}
            return []
        if self._at_text < len(self._texts):
            # Delivered text is missing before this step.
            raise RunMismatch(at, list(self._now))
        step = event.step
        if self._losses:
            earliest = self.steps[-1].elapsed_s if self.steps else 0.0
            elapsed_s = round(max(earliest, step.elapsed_s + self._shift), _SECONDS_DIGITS)
            step = dataclasses.replace(step, elapsed_s=elapsed_s)
        pieces, self._owed = self._owed | event.pieces, {}
        self.steps.append(step)
        self._pieces |= pieces
        return [StepRecorded(step, pieces)]

    def _take_text(self, event: TextDelta) -> Sequence[Event]:
        at, self._at_text = self._at_text, self._at_text + 1
        if at < len(self._texts):
            if event != self._texts[at]:
                raise RunMismatch(max(self._at_step - 1, 0), list(self._now))
            return []
        self._texts.append(event)
        return [event]

    def _check_complete(self) -> None:
        if self._at_step < len(self.steps) or self._at_text < len(self._texts):
            raise RunMismatch(self._at_step, list(self._now))

    def _merge_trace(self, trace: Trace) -> Trace:
        """Return the repetition's trace with the steps as delivered and a note on the losses."""
        assert self.header is not None
        steps = tuple(self.steps)
        if steps and not is_equal_except(trace.steps[-1], steps[-1], SECONDS):
            # The last step got a measurement after it was sent.
            last = dataclasses.replace(trace.steps[-1], elapsed_s=steps[-1].elapsed_s)
            steps = (*steps[:-1], last)
        return self._as_delivered(trace, steps)

    def _as_delivered(self, trace: Trace, steps: tuple[Step, ...]) -> Trace:
        assert self.header is not None
        timing = dataclasses.replace(
            trace.timing,
            first_token_s=steps[0].elapsed_s if steps else None,
            total_s=max((step.elapsed_s for step in steps), default=0.0),
        )
        notes = (*trace.notes, self._note(self._losses)) if self._losses else trace.notes
        trace = dataclasses.replace(
            trace,
            steps=steps,
            timing=timing,
            notes=notes,
            model=self.header.model,
            assistant=self.header.assistant,
            versions=self.header.versions,
        )
        return dataclasses.replace(trace, metrics=metrics.compute_metrics(trace))

    def _build_output(self, sequence: int, finish_reason: str) -> Output:
        ids = replay_ids(tuple(step for step in self.steps if step.sequence == sequence))
        text = ""
        for delta in self._texts:
            if delta.sequence == sequence:
                text = text[: delta.keep_chars] + delta.text
        return Output(tuple(ids), text, finish_reason)


def is_same_step(one: Step, other: Step) -> bool:
    """Return whether two steps decide the same, with numbers equal up to rounding.

    In shared passes the last digits depend on the other runs of the batch, and so may the order of
    equal candidates. The decision does not.
    """
    if is_equal_except(one, other, SECONDS):
        return True
    decided = [(s.index, s.sequence, s.keep, s.emit, type(s.detail)) for s in (one, other)]
    if decided[0] != decided[1] or not isinstance(one.detail, _SHARED_PASS_DETAILS):
        return False
    mine, yours = ({c.token_id: c.raw_logprob for c in step.candidates} for step in (one, other))
    pairs = [(mine[i], yours[i]) for i in mine.keys() & yours.keys()]
    pairs += [
        (one.logsumexp or 0.0, other.logsumexp or 0.0),
        (one.entropy or 0.0, other.entropy or 0.0),
    ]
    return all(math.isclose(a, b, rel_tol=0.0, abs_tol=_LOGPROB_TOLERANCE) for a, b in pairs)


def format_loss_note(losses: Sequence[int]) -> str:
    """Return the sentence on lost replicas from the step count at each loss."""
    if len(losses) == 1:
        if losses[0] == 1:
            return Message(
                "The replica of this run was lost after 1 step; it was made again on another one, "
                "and every step was the same."
            )
        return Message(
            "The replica of this run was lost after {steps} steps; it was made again on another "
            "one, and every step was the same.",
            steps=losses[0],
        )
    after = ", ".join(map(str, losses))
    return Message(
        "The replica of this run was lost {times} times, after these numbers of "
        "steps: {steps}; it was made again each time, and every step was the same.",
        times=len(losses),
        steps=after,
    )


def _comparable_header(header: Trace) -> dict[str, Any]:
    """Return the header fields that decide a run's steps; Python and device index do not."""
    fields = {field.name: getattr(header, field.name) for field in dataclasses.fields(header)}
    kinds = {
        name: model and dataclasses.replace(model, device=model.device.split(":")[0])
        for name, model in (("model", header.model), ("assistant", header.assistant))
    }
    # torch.__version__ is a str subclass.
    versions = {name: str(value) for name, value in header.versions.items() if name != "python"}
    return {**fields, **kinds, "versions": versions, "timing": Timing()}
