"""A run that is read as it goes on by something else than a stage: progress, text, trace."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from engine.run.request import DecodeRequest
from engine.serving import decode
from engine.trace.events import Failed, Finished, Started, StartedAnew, TextDelta
from engine.trace.records import Trace
from playground.journal import JOURNAL
from playground.meanwhile import DECODING, STARTING, beat_s, last_told

_INTERVAL_S = 0.3


def written(request: DecodeRequest) -> Iterator[Trace | str | dict[str, Any]]:
    """Yield what the page is told until the run begins, the text as it grows and, last, the trace.

    Raises:
        EngineError: the run failed.
    """
    text, last = "", STARTING
    with closing(decode(request)) as run:
        JOURNAL.open(run)
        for events in run.batches(_INTERVAL_S, beat_s()):
            for event in events:
                match event:
                    case Started():
                        last = DECODING
                    case StartedAnew():
                        text = ""
                        JOURNAL.open(run)
                    case TextDelta(_, keep, new):
                        text = text[:keep] + new
                    case Failed(error):
                        raise error
                    case Finished(trace):
                        yield trace
                        return
            last = last_told(events) or last
            yield {"id": run.run_id, **last}
            if text:
                yield text
