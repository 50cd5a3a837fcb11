"""A run that is made again after its replica was lost: what was delivered already is compared and swallowed.

A run is a function of its request, so the same request gives the same steps. Whoever reads the events sees
a pause, no gap and nothing twice. Where a step differs after all, the run cannot go on as it began.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from engine.reading import metrics
from engine.trace.details import DrawDetail, WatermarkDetail
from engine.trace.events import Event, Failed, Finished, Started, StepRecorded, TextDelta
from engine.trace.records import Output, Step, Timing, Trace, replay_ids
from engine.trace.values import SECONDS, same

_DIGITS = 6
_ROUNDING = 1e-3
"""Nats, of a log-probability; shared passes are off by some 1e-5, and another seed or model by far more."""
_OF_SHARED_PASSES = (type(None), DrawDetail, WatermarkDetail)
"""Details of the strategies whose runs share passes."""


class Differs(Exception):
    """The run does not come out as it did before.

    Attributes:
        step: steps that were the same.
        events: all that the run has sent this time, those of the last batch included; nothing of it was passed on.
    """

    def __init__(self, step: int, events: list[Event]) -> None:
        super().__init__(f"step {step} differs")
        self.step, self.events = step, events


class Repeat:
    """What was delivered of one run, however often it is made.

    Args:
        clock: tells seconds; its differences count.
        note: what the run's trace says of losses, each after so many steps; None is ``lost_note``.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        note: Callable[[Sequence[int]], str] | None = None,
    ) -> None:
        self._clock, self._note = clock, note or lost_note
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
    def of(
        cls,
        header: Trace,
        steps: Iterable[Step] = (),
        texts: Iterable[TextDelta] = (),
        pieces: Mapping[int, str] | None = None,
        began_s: float | None = None,
        note: Callable[[Sequence[int]], str] | None = None,
    ) -> Repeat:
        """Return what is known of a run whose reader was lost, too; ``again`` is called already.

        Args:
            header: as its Started brought it.
            steps: those that were delivered, in order.
            texts: the same of its texts.
            pieces: all that came with the steps.
            began_s: seconds since its Started; None as if there had been no pause.
            note: as of the class.
        """
        repeat = cls(note=note)
        repeat.header, repeat.steps, repeat._texts = header, list(steps), list(texts)
        repeat._pieces = {**header.pieces, **(pieces or {})}
        if began_s is None:
            began_s = repeat.steps[-1].elapsed_s if repeat.steps else 0.0
        repeat._began = repeat._clock() - began_s
        repeat.again()
        return repeat

    @property
    def started(self) -> bool:
        """Whether anything of it was delivered that has to come again."""
        return self.header is not None

    @property
    def behind(self) -> bool:
        """Whether something that was delivered has not come again yet."""
        at = (self._at_step, self._at_text)
        return self.started and at != (len(self.steps), len(self._texts))

    def again(self) -> None:
        """Begin again: what comes now is the same run from its start."""
        if self.started:
            self._losses.append(len(self.steps))
        self._at_step = self._at_text = 0
        self._owed = {}
        self._now.clear()

    def take(self, events: Iterable[Event]) -> list[Event]:
        """Take the next events of the run and return those that were not delivered before.

        Raises:
            Differs: one of them is not what was delivered.
        """
        coming, new = list(events), []
        for number, event in enumerate(coming):
            try:
                new += self._one(event)
            except Differs as differs:
                differs.events += coming[number + 1 :]
                raise
        return new

    def so_far(self, finish_reason: str) -> Trace | None:
        """Return what was delivered as a trace that ends there, None while there is no step."""
        if self.header is None or not self.steps:
            return None
        outputs = tuple(
            self._output(sequence, finish_reason)
            for sequence in sorted({step.sequence for step in self.steps})
        )
        trace = dataclasses.replace(self.header, pieces=dict(self._pieces), outputs=outputs)
        return self._as_delivered(trace, tuple(self.steps))

    def _one(self, event: Event) -> Sequence[Event]:
        if self._losses:
            self._now.append(event)
        match event:
            case Started(header):
                return self._start(event, header)
            case StepRecorded():
                return self._step(event)
            case TextDelta():
                return self._text(event)
            case Finished(trace):
                self._complete()
                return [Finished(self._mended(trace))] if self._losses else [event]
            case Failed(error, trace):
                if trace is not None and len(trace.steps) >= len(self.steps):
                    rest = self._mended(trace)
                else:
                    rest = self.so_far("error")
                return [Failed(error, rest)] if self._losses else [event]
        return [event]

    def _start(self, event: Started, header: Trace) -> Sequence[Event]:
        if self.header is None:
            self.header, self._began = header, self._clock()
            self._pieces = dict(header.pieces)
            return [event]
        if not same(_told_by(header), _told_by(self.header), SECONDS):
            raise Differs(0, list(self._now))
        self._shift = self._clock() - self._began
        return []

    def _step(self, event: StepRecorded) -> Sequence[Event]:
        at, self._at_step = self._at_step, self._at_step + 1
        if at < len(self.steps):
            known = self._pieces
            other = {i for i, piece in event.pieces.items() if known.get(i, piece) != piece}
            if other or not agree(event.step, self.steps[at]):
                raise Differs(at, list(self._now))
            # A candidate that was level with the last of those that were told.
            self._owed |= {i: piece for i, piece in event.pieces.items() if i not in known}
            return []
        if self._at_text < len(self._texts):
            # Text that came before this step was delivered and did not come this time.
            raise Differs(at, list(self._now))
        step = event.step
        if self._losses:
            earliest = self.steps[-1].elapsed_s if self.steps else 0.0
            elapsed_s = round(max(earliest, step.elapsed_s + self._shift), _DIGITS)
            step = dataclasses.replace(step, elapsed_s=elapsed_s)
        pieces, self._owed = self._owed | event.pieces, {}
        self.steps.append(step)
        self._pieces |= pieces
        return [StepRecorded(step, pieces)]

    def _text(self, event: TextDelta) -> Sequence[Event]:
        at, self._at_text = self._at_text, self._at_text + 1
        if at < len(self._texts):
            if event != self._texts[at]:
                raise Differs(max(self._at_step - 1, 0), list(self._now))
            return []
        self._texts.append(event)
        return [event]

    def _complete(self) -> None:
        if self._at_step < len(self.steps) or self._at_text < len(self._texts):
            raise Differs(self._at_step, list(self._now))

    def _mended(self, trace: Trace) -> Trace:
        """Return the trace of the last time with the steps as they were delivered, and with what happened."""
        assert self.header is not None
        steps = tuple(self.steps)
        if steps and not same(trace.steps[-1], steps[-1], SECONDS):
            # Something was measured beside it after it was sent.
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
        return dataclasses.replace(trace, metrics=metrics.of(trace))

    def _output(self, sequence: int, finish_reason: str) -> Output:
        ids = replay_ids(tuple(step for step in self.steps if step.sequence == sequence))
        text = ""
        for delta in self._texts:
            if delta.sequence == sequence:
                text = text[: delta.keep_chars] + delta.text
        return Output(tuple(ids), text, finish_reason)


def agree(one: Step, other: Step) -> bool:
    """Return whether two steps decide the same, by numbers that are the same but for rounding.

    Where runs share passes, the last digits of a number depend on who else was there, and so may the order
    of candidates that are level; what was decided does not.
    """
    if same(one, other, SECONDS):
        return True
    decided = [(s.index, s.sequence, s.keep, s.emit, type(s.detail)) for s in (one, other)]
    if decided[0] != decided[1] or not isinstance(one.detail, _OF_SHARED_PASSES):
        return False
    mine, yours = ({c.token_id: c.raw_logprob for c in step.candidates} for step in (one, other))
    pairs = [(mine[i], yours[i]) for i in mine.keys() & yours.keys()]
    pairs += [(one.logsumexp, other.logsumexp), (one.entropy, other.entropy)]
    return all(math.isclose(a, b, rel_tol=0.0, abs_tol=_ROUNDING) for a, b in pairs)


def lost_note(losses: Sequence[int]) -> str:
    """Return the sentence about replicas that were lost, each after so many steps."""
    if len(losses) == 1:
        after = "1 step" if losses[0] == 1 else f"{losses[0]} steps"
        return (
            f"The replica of this run was lost after {after}; it was made again on another one, "
            "and every step was the same."
        )
    after = ", ".join(map(str, losses))
    return (
        f"The replica of this run was lost {len(losses)} times, after these numbers of steps: {after}; "
        "it was made again each time, and every step was the same."
    )


def _told_by(header: Trace) -> dict[str, Any]:
    """Return what a run says of itself that decides its steps: not Python's version, nor which of equal devices."""
    fields = {field.name: getattr(header, field.name) for field in dataclasses.fields(header)}
    kinds = {
        name: model and dataclasses.replace(model, device=model.device.split(":")[0])
        for name, model in (("model", header.model), ("assistant", header.assistant))
    }
    # Torch tells its own with a type of its own.
    versions = {name: str(value) for name, value in header.versions.items() if name != "python"}
    return {**fields, **kinds, "versions": versions, "timing": Timing()}
