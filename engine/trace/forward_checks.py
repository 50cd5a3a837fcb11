"""Validation of a custom method's forward passes: one text that grows and rolls back."""

from __future__ import annotations

from engine.errors import TraceError
from engine.messages import Message
from engine.trace.details import ForwardDetail, ForwardPass
from engine.trace.records import Step, Trace

_COUNT_FIELDS = ("rows", "read", "cached", "dropped", "length")


def check_forwards(trace: Trace) -> None:
    """Check the passes of a run that was observed from outside.

    - No number is negative, and no pass ends before the previous one.
    - The cached and the read tokens of a pass cover the text.
    - The text is as long as the earlier steps wrote, minus the tokens rolled back since.
    - The tokens that a step rolls back are those that the next pass drops.

    Raises:
        TraceError: a rule is broken; the message names the step.
    """
    texts: dict[int, _TextState] = {}
    for step in trace.steps:
        text = texts.setdefault(step.sequence, _TextState())
        if isinstance(step.detail, ForwardDetail):
            text.apply_step(step, step.detail)
        else:
            # Such a step does not say what its passes dropped.
            text.left = None
        text.written = step.keep + len(step.emit)


class _TextState:
    """State of one text: its length and its pending rollback."""

    def __init__(self) -> None:
        self.written = 0
        """New tokens that were written and not rolled back."""
        self.start: int | None = None
        """Prompt tokens; None before the first pass."""
        self.left: int | None = 0
        """Tokens that the previous step rolled back; None if unknown."""
        self.ended_s = 0.0

    def apply_step(self, step: Step, detail: ForwardDetail) -> None:
        """Check the passes of a step and update the state."""
        where = Message("Step {step}", step=step.index)
        if detail.declared < 0:
            raise TraceError("{where} has declared {n} tokens.", where=where, n=detail.declared)
        if len(detail.passes) != step.forward_passes:
            raise TraceError(
                "{where} has {n} passes and counts {counted}.",
                where=where,
                n=len(detail.passes),
                counted=step.forward_passes,
            )
        for place, one_pass in enumerate(detail.passes):
            _check_pass(where, one_pass)
            if one_pass.elapsed_s < self.ended_s:
                raise TraceError(
                    "{where} has a pass that ended before the one before it.", where=where
                )
            self.ended_s = one_pass.elapsed_s
            self._roll_back(where, one_pass, first=place == 0)
            self._check_length(where, one_pass)
        if step.keep > self.written:
            raise TraceError(
                "{where} keeps {n} tokens of {written} after its last pass.",
                where=where,
                n=step.keep,
                written=self.written,
            )
        self.left = self.written - step.keep

    def _roll_back(self, where: str, one_pass: ForwardPass, *, first: bool) -> None:
        """Apply a pass's rollback; the previous step has applied that of a step's first pass."""
        if first and self.left is not None and one_pass.dropped != self.left:
            raise TraceError(
                "{where} begins without {dropped} tokens of its text, and the step before "
                "took back {left}.",
                where=where,
                dropped=one_pass.dropped,
                left=self.left,
            )
        if first:
            return
        if one_pass.dropped > self.written:
            raise TraceError(
                "{where} has a pass without {dropped} of {written} tokens.",
                where=where,
                dropped=one_pass.dropped,
                written=self.written,
            )
        self.written -= one_pass.dropped

    def _check_length(self, where: str, one_pass: ForwardPass) -> None:
        if self.start is None:
            self.start = max(one_pass.length - self.written, 0)
        if one_pass.length != self.start + self.written:
            raise TraceError(
                "{where} has a pass with length = {length}, and its text has {n} tokens.",
                where=where,
                length=one_pass.length,
                n=self.start + self.written,
            )


def _check_pass(where: str, one_pass: ForwardPass) -> None:
    """Check the numbers of one pass."""
    for name in _COUNT_FIELDS:
        if getattr(one_pass, name) < 0:
            raise TraceError(
                "{where} has a pass with {name} = {value}.",
                where=where,
                name=name,
                value=getattr(one_pass, name),
            )
    if one_pass.aside and one_pass.dropped:
        raise TraceError(
            "{where} has a pass aside that takes back {n} tokens.", where=where, n=one_pass.dropped
        )
    if (
        not one_pass.aside
        and not one_pass.read <= one_pass.length <= one_pass.cached + one_pass.read
    ):
        raise TraceError(
            "{where} has a pass of {n} tokens that read {read} after {cached} in the cache.",
            where=where,
            n=one_pass.length,
            read=one_pass.read,
            cached=one_pass.cached,
        )
