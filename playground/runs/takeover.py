"""Takeover of a run whose server process died: this process decodes its stored request again.

Messages that were already sent are compared, not sent twice. The page sees a pause.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from engine.errors import EngineError
from engine.run.request import DecodeRequest
from playground.forms.form import run_request
from playground.jobs.registry import PageJob
from playground.jobs.resumed_run import ResumedRun
from playground.runs.stream import progress_message, run_state, state_from_messages, stream_run
from playground.storage.journal import JOURNAL, Press
from playground.storage.run_store import RunMessage, StoredRun

# Both SQLite and PostgreSQL can be polled; LISTEN and NOTIFY would be a second code path.
_POLL_S = 0.4
_SEARCHING_MESSAGE = {"phase": "starting", "says": "Looking for what ran here…"}


def take_over(payload: Mapping[str, Any], key: str) -> Callable[[PageJob], Iterator[str]] | None:
    """Return the work that goes on with another process's run, or None if that is not possible.

    Args:
        payload: what the page sent; ``press`` and ``run`` must match the stored run.
        key: the tab that shows the run.
    """
    run_id, press = str(payload.get("run", ""))[:64], str(payload.get("press", ""))
    if not run_id or not press:
        return None
    known = JOURNAL.find_stored(run_id)
    # The press id is unguessable: only the page that began a run can take it over.
    if known is None or known.ended or not known.asked or known.press != press:
        return None
    try:
        again = Press(press, json.loads(known.asked))
        request = run_request(again.payload)
    except EngineError:
        return None
    return lambda job: _follow_run(job, run_id, key, request, again)


def _follow_run(
    job: PageJob, run_id: str, key: str, request: DecodeRequest, press: Press
) -> Iterator[str]:
    """Stream the messages another process stored for a run; take it over if that process dies."""
    sent_count = 0
    while (known := JOURNAL.find_stored(run_id)) is not None:
        yield from known.texts[sent_count:]
        sent_count = len(known.texts)
        if known.ended:
            return
        # ``claim`` is one conditional update of the run's row, so it succeeds in one process only.
        claimed = None if known.lives else JOURNAL.claim(run_id, known)
        if claimed is not None:
            yield from claimed.texts[sent_count:]
            yield from _continue_run(job, run_id, claimed, request, press)
            return
        # Gradio notices a closed tab only when it sends something.
        yield progress_message(run_id, key, _SEARCHING_MESSAGE)
        time.sleep(_POLL_S)
    yield run_state(run_id)


def _continue_run(
    job: PageJob, run_id: str, known: StoredRun, request: DecodeRequest, press: Press
) -> Iterator[str]:
    """Decode a claimed run again and yield the messages after the stored ones."""
    whole = False
    for text in stream_run(job, request, press=press, remade=ResumedRun(run_id, known)):
        if not whole and isinstance(text, RunMessage):
            whole = True
            # The page may have messages that were never stored, so before the first new one it gets
            # the whole state, with that one.
            yield state_from_messages(run_id, [*known.texts, text])
        yield text
