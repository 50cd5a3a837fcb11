"""A run as a stream of progress, growing text and finally its trace, without step detail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

from engine.run.request import DecodeRequest
from engine.serving import decode
from engine.trace.events import Failed, Finished, RunReplaced, Started, TextDelta
from engine.trace.records import Trace
from playground.jobs.progress import DECODING, STARTING, heartbeat_interval_s, last_progress_message
from playground.jobs.registry import PageJob

_UPDATE_INTERVAL_S = 0.3


def stream_text(job: PageJob, request: DecodeRequest) -> Iterator[Trace | str | dict[str, Any]]:
    """Decode a request as the job's work; yield progress messages (dict), the text so far (str) and, last, the trace.

    Raises:
        EngineError: The run failed.
    """
    text, last = "", STARTING
    with closing(decode(request)) as run:
        job.set_work(run)
        for events in run.batches(_UPDATE_INTERVAL_S, heartbeat_interval_s()):
            for event in events:
                match event:
                    case Started():
                        last = DECODING
                    case RunReplaced():
                        text = ""
                    case TextDelta(_, keep, new):
                        text = text[:keep] + new
                    case Failed(error):
                        raise error
                    case Finished(trace):
                        yield trace
                        return
            last = last_progress_message(events) or last
            yield {"kind": "progress", **last}
            if text:
                yield text
