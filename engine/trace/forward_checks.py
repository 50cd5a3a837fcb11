"""What the forward passes of a run must satisfy together: one text, that grows and is taken back."""

from __future__ import annotations

from engine.errors import TraceError
from engine.trace.details import ForwardDetail, ForwardPass
from engine.trace.records import Step, Trace

_COUNTS = ("rows", "read", "cached", "dropped", "length")


def check_forwards(trace: Trace) -> None:
    """Check the passes of a run that was seen from outside.

    No number is negative, and no pass ends before the one before it. Of the run's own text a pass holds
    what was in the cache and what it read; the text is as long as the steps before have written, without
    what was taken back since; and what a step takes back is what the next pass misses.

    Raises:
        TraceError: naming the step.
    """
    texts: dict[int, _Text] = {}
    for step in trace.steps:
        text = texts.setdefault(step.sequence, _Text())
        if isinstance(step.detail, ForwardDetail):
            text.follow(step, step.detail)
        else:
            text.left = None
        text.written = step.keep + len(step.emit)


class _Text:
    """A text as the passes have it, as far as the steps have come."""

    def __init__(self) -> None:
        self.written = 0
        """New tokens, all that were written and not taken back."""
        self.start: int | None = None
        """Tokens before the new ones; None until a pass has told."""
        self.left: int | None = 0
        """Tokens that the step before took back; None where nothing tells."""
        self.ended_s = 0.0

    def follow(self, step: Step, detail: ForwardDetail) -> None:
        """Take a step's passes."""
        where = f"Step {step.index}"
        if detail.declared < 0:
            raise TraceError(f"{where} has declared {detail.declared} tokens.")
        if len(detail.passes) != step.forward_passes:
            raise TraceError(
                f"{where} has {len(detail.passes)} passes and counts {step.forward_passes}."
            )
        for place, seen in enumerate(detail.passes):
            _check_numbers(where, seen)
            if seen.elapsed_s < self.ended_s:
                raise TraceError(f"{where} has a pass that ended before the one before it.")
            self.ended_s = seen.elapsed_s
            self._take_back(where, seen, first=place == 0)
            self._check_length(where, seen)
        if step.keep > self.written:
            raise TraceError(
                f"{where} keeps {step.keep} tokens of {self.written} after its last pass."
            )
        self.left = self.written - step.keep

    def _take_back(self, where: str, seen: ForwardPass, *, first: bool) -> None:
        """Take back of the text what a pass misses; the step before has done so for a step's first."""
        if first and self.left is not None and seen.dropped != self.left:
            raise TraceError(
                f"{where} begins without {seen.dropped} tokens of its text, and the step before took"
                f" back {self.left}."
            )
        if first:
            return
        if seen.dropped > self.written:
            raise TraceError(f"{where} has a pass without {seen.dropped} of {self.written} tokens.")
        self.written -= seen.dropped

    def _check_length(self, where: str, seen: ForwardPass) -> None:
        if self.start is None:
            self.start = max(seen.length - self.written, 0)
        if seen.length != self.start + self.written:
            raise TraceError(
                f"{where} has a pass with length = {seen.length}, and its text has"
                f" {self.start + self.written} tokens."
            )


def _check_numbers(where: str, seen: ForwardPass) -> None:
    """Check what a pass says of itself."""
    for name in _COUNTS:
        if getattr(seen, name) < 0:
            raise TraceError(f"{where} has a pass with {name} = {getattr(seen, name)}.")
    if seen.aside and seen.dropped:
        raise TraceError(f"{where} has a pass aside that takes back {seen.dropped} tokens.")
    if not seen.aside and not seen.read <= seen.length <= seen.cached + seen.read:
        raise TraceError(
            f"{where} has a pass of {seen.length} tokens that read {seen.read} after"
            f" {seen.cached} in the cache."
        )
