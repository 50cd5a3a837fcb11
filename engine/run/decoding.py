"""decode(request): a worker thread runs generate() with our loop; events come up as it decides."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from engine.run.request import DecodeRequest
from engine.run.run import Run
from engine.run.work import Work
from engine.trace.events import Event


def decode(request: DecodeRequest) -> DecodeRun:
    """Start decoding; iterate the result for events, the last is Finished or Failed.

    Args:
        request: what to decode. Nothing is raised for a bad request: it arrives as Failed.

    Returns:
        An iterator of events with ``close()`` (stop and forget) and ``cancel()`` (stop and get
        what there is as Finished, with finish_reason cancelled; a run that waits or loads ends as
        Failed with StoppedError).
    """
    return DecodeRun(request)


class DecodeRun(Work):
    """The events of one run; see ``decode``."""

    def __init__(self, request: DecodeRequest) -> None:
        super().__init__(partial(Run, request))

    def __iter__(self) -> Iterator[Event]:
        return self
