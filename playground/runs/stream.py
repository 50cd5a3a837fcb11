"""Messages of a run for the browser: small numbered deltas, at most about ten a second.

Every message is one JSON string ``{"run", "seq", "kind", …}``. The page detects a gap by the
number and requests the whole state, which the journal keeps for a while after the run.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from engine import DecodeRequest
from engine.inspection.logits_cache import LOGITS_CACHE
from engine.messages import to_json
from engine.serving import decode
from engine.settings import SETTINGS
from engine.trace.events import Finished, Started
from engine.trace.records import Trace
from playground.forms.links import to_form, to_link
from playground.jobs.progress import DECODING, STARTING, heartbeat_interval_s, last_progress_message
from playground.jobs.registry import JOBS, PageJob
from playground.jobs.resumed_run import ResumedRun, diverged_note
from playground.runs.messages import MessageWriter, error_flags, restart_message
from playground.shell.guard import error_message
from playground.storage.journal import JOURNAL, Press, RunMessages

NO_LISTENER = "This was stopped, because no page followed it any more; what had come is kept."
_LOG = logging.getLogger("playground")


class RunFollower(Protocol):
    """An observer of a run, in addition to the page."""

    def begin(self, run_id: str) -> None:
        """Receive the id of the run when it has started."""

    def observe_events(self, events: list[Any]) -> dict[str, Any]:
        """Receive a batch of events; return fields to add to their messages."""
        ...


def stream_run(  # noqa: C901
    job: PageJob,
    request: DecodeRequest,
    key: str | None = None,
    follow: RunFollower | None = None,
    press: Press | None = None,
    remade: ResumedRun | None = None,
) -> Iterator[str]:
    """Decode and yield messages as JSON strings; never raises, the last one says how it ended.

    Args:
        job: The job that decodes it.
        request: What to decode.
        key: Where the page shows the run; None for its strategy's tab and the address bar.
        follow: Observer of the run and its events.
        press: What another process needs to repeat the run if this process ends first.
        remade: The stored part of a run that is repeated; the run keeps its id.
    """
    # The logits cache is keyed by the id of the first decoding: no repeated runs.
    run = decode(request, LOGITS_CACHE.start_writer if remade is None else None)
    messages = RunMessages(run.run_id)
    shown_at = key or request.strategy
    writer, last = _PageMessages(request, remade), STARTING
    try:
        messages = _open_record(run.run_id, press, remade)
        job.set_work(run)
        if follow is not None:
            follow.begin(run.run_id)
        for batch in run.batches(1 / SETTINGS.updates_per_s, heartbeat_interval_s()):
            events = batch
            if press is not None and JOURNAL.leaving:
                # No end is sent: another process takes the run over.
                return
            if remade is not None:
                events, step = remade.new_events(events)
                if step is not None:
                    yield messages.add(restart_message(diverged_note(step), request, run.run_id))
                    messages, writer = JOURNAL.open(run.run_id, press), _PageMessages(request)
            more = {} if follow is None else follow.observe_events(events)
            for message in writer.messages(events):
                last = DECODING
                sent = message if message["kind"] == "start" else message | more
                yield messages.add(sent if key is None else _shown_at(sent, key))
                if "anew" in message:
                    # The events that follow belong to a new run with its own id.
                    messages = JOURNAL.open(run.run_id, press)
            news = last_progress_message(events)
            if news is not None or not events:
                # Without a number: a lost progress message is replaced by the next.
                last = news or last
                yield progress_message(messages.run_id, shown_at, last)
    except GeneratorExit:
        job.add(messages.add({"kind": "fail", "error": NO_LISTENER}))
        raise
    except BaseException as error:
        # The page may not know the run yet, so the message says where to show it.
        yield messages.add({"kind": "fail", "error": error_message(error), "strategy": shown_at})
    finally:
        run.close()


def repeat_run(
    request: DecodeRequest, events: list[Any], key: str, follow: RunFollower
) -> Iterator[str]:
    """Yield the messages of a decoded run again, as another run at the place ``key`` on the page.

    Args:
        request: The run as it would have been decoded; its seed is shown.
        events: The events of the decoded run, from its ``Started``.
        key: Where the page shows it.
        follow: Observer of the repeated events.
    """
    messages = JOURNAL.open(uuid.uuid4().hex)
    follow.begin(messages.run_id)
    repeated = [_with_seed(event, request.seed) for event in events]
    more = follow.observe_events(repeated)
    for message in _PageMessages(request).messages(repeated):
        sent = message if message["kind"] == "start" else message | more
        yield messages.add(_shown_at(sent, key))


def _shown_at(message: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a message for another place on the page than its strategy's tab, without its link."""
    return message | {k: v for k, v in {"strategy": key, "link": ""}.items() if k in message}


def _with_seed(event: Any, seed: int) -> Any:
    match event:
        case Started(header):
            return Started(dataclasses.replace(header, seed=seed))
        case Finished(trace):
            return Finished(dataclasses.replace(trace, seed=seed))
    return event


def _open_record(run_id: str, press: Press | None, remade: ResumedRun | None) -> RunMessages:
    if remade is not None:
        return JOURNAL.reopen(remade.run_id, remade.known)
    return JOURNAL.open(run_id, press)


def progress_message(run_id: str, key: str, news: Mapping[str, str]) -> str:
    """Return the progress message of a run, for the place ``key`` on the page."""
    return to_json({"kind": "progress", "run": run_id, "strategy": key, **news})


def refusal_message(key: str, error: BaseException, run_id: str = "") -> str:
    """Return the only message of a run that never began: its error, for the place ``key``."""
    about = {"kind": "fail", "run": run_id or uuid.uuid4().hex, "seq": 0, "strategy": key}
    return to_json({**about, "error": error_message(error), **error_flags(error)})


class _PageMessages(MessageWriter):
    """Adds what the page needs to ask for the run again: its link and its form."""

    def start_message(self, header: Trace) -> dict[str, Any]:
        """Return the first message of a run, with its link and its form."""
        again = {"link": to_link(self.request), "form": to_form(self.request)}
        return super().start_message(header) | again


def run_state(run_id: str) -> str:
    """Return one message with everything sent so far, for a page that missed some."""
    return state_from_messages(run_id, JOBS.run_messages(run_id))


def stored_state(payload: Mapping[str, Any]) -> str:
    """Return the state of the run that a resuming page names."""
    return run_state(str(payload.get("run", ""))[:64])


def state_from_messages(run_id: str, texts: Iterable[str]) -> str:
    """Join a run's messages, each a JSON string, into one state message."""
    messages = ",".join(texts)
    return f'{{"kind":"state","run":{json.dumps(run_id)},"messages":[{messages}]}}'


def run_state_or_empty(run_id: str) -> str:
    """Return the state message, "" for an unknown run."""
    state = run_state(run_id)
    return "" if state.endswith('"messages":[]}') else state
