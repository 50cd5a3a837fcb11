"""A run as a stream of progress, growing text and finally its trace, without step detail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from engine.run.request import DecodeRequest
from engine.serving import decode
from engine.trace.events import Failed, Finished, Started, StartedAnew, TextDelta
from engine.trace.records import Trace
from playground.jobs.progress import DECODING, STARTING, beat_s, last_told
from playground.storage.journal import JOURNAL

_INTERVAL_S = 0.3


def written(request: DecodeRequest) -> Iterator[Trace | str | dict[str, Any]]:
    """Decode a request; yield progress messages (dict), the text so far (str) and, last, the trace.

    Raises:
        EngineError: The run failed.
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
