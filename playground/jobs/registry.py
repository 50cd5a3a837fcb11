"""The registry of work: one declaration per kind, and one way to begin, resume, stop and limit it.

A page names each job with an unguessable id of its own. It resumes and stops the job by that id,
also before the server has heard of it.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

from engine.errors import BusyError, Cancelled, StoppedError
from engine.messages import to_json
from engine.run.jobs import JobStream
from engine.settings import SETTINGS
from playground.jobs.progress import HEARTBEAT_S
from playground.shell import lazy_imports
from playground.shell.guard import error_message
from playground.shell.listeners import LISTENERS
from playground.shell.visitors import current_session
from playground.storage.journal import JOURNAL
from playground.storage.run_store import RunMessage

ENDED_MESSAGE = (
    "This run is lost: it ended while this page was away, or the server was restarted. "
    "Press Run to start again."
)
OTHERS_ASK_MESSAGE = "Others are asking, too; try again in a moment."
QUESTION_WAIT_S = 20.0
"""Longest wait of a page's question for a slot."""
_STOPPED_MESSAGE = "Stopped."
_MAX_ENDED = 64
"""Ended jobs whose messages stay in memory."""
_MAX_STOPPED = 64
"""Stops that may arrive before their jobs."""
_MAX_ID_CHARS = 64
_POLL_S = 0.05

Payload = Mapping[str, Any]


def _failure(error: BaseException) -> dict[str, Any]:
    stopped = {"stopped": True} if isinstance(error, StoppedError) else {}
    return {"kind": "failed", "error": error_message(error), **stopped}


def _unknown_job(payload: Payload) -> dict[str, Any]:
    del payload
    return {"kind": "failed", "error": ENDED_MESSAGE}


class TabMessage(dict[str, Any]):
    """A message to the tab that asked.

    Attributes:
        text: the message as JSON. It is written at once: a message that JSON cannot hold fails its job.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        super().__init__(fields)
        self.text = to_json(self)


@dataclass(frozen=True)
class JobKind:
    """One kind of work and its limits.

    Work with ``messages`` runs in a thread and survives a lost connection. Its messages are stored
    in its job, and those of its runs in the journal too: a ``str`` is about a run and goes to the
    page's stages, a ``dict`` goes to the tab that asked. Other work runs in its caller's thread.

    Attributes:
        name: the tab or question that asks for it.
        messages: does the work, given the job and what the page sent.
        slots: how many run at once; None if the engine's queue decides, which limits visitors too.
        wait_s: longest wait for a slot; None to wait until it is stopped.
        busy: the sentence after this wait.
        latest_only: whether a page's new job stops its previous one, which has the same id.
        reconnects: whether a page that lost its connection may come back to it.
        stopped: the sentence for a job without a result that was stopped.
        about: fields that each message to the tab repeats from what the page sent.
        failure: the last message after an error.
        unknown: the only message for a page that resumes a job that this process does not know.
        take_over: returns the work that goes on with another process's job, or None.
    """

    name: str
    messages: Callable[[PageJob, Payload], Iterator[Any]] | None = None
    slots: int | None = None
    wait_s: float | None = None
    busy: str = ""
    latest_only: bool = False
    reconnects: bool = True
    stopped: str = _STOPPED_MESSAGE
    about: Callable[[Payload], dict[str, Any]] = lambda payload: {}
    failure: Callable[[BaseException], Any] = _failure
    unknown: Callable[[Payload], Any] = _unknown_job
    take_over: Callable[[Payload], Callable[[PageJob], Iterator[Any]] | None] = lambda payload: None


class _StopSignal(threading.Event):
    """An event that is also set once nobody waits for the job any more."""

    def __init__(self, is_abandoned: Callable[[], bool]) -> None:
        super().__init__()
        self._is_abandoned = is_abandoned

    def is_set(self) -> bool:
        # The engine asks at every step, so an abandoned job needs no thread that watches it.
        if not super().is_set() and self._is_abandoned():
            self.set()
        return super().is_set()


class PageJob:
    """One piece of work.

    Args:
        kind: its declaration.
        job_id: the page's id, "" for none.
        session: the Gradio session that waits for it; "" is a caller in this process.
        expected: whether its page is known to listen soon.

    Attributes:
        cancelled: set when it is stopped, replaced or abandoned.
        messages: what was sent, in order.
        runs: ids of the runs with messages among them.
        ended: whether no more messages come.
    """

    def __init__(
        self, kind: JobKind, job_id: str = "", session: str = "", *, expected: bool = True
    ) -> None:
        self.kind, self.id = kind, job_id[:_MAX_ID_CHARS] or uuid.uuid4().hex
        self.sessions = {session}
        self.cancelled = _StopSignal(self.is_abandoned)
        self.messages: list[Any] = []
        self.runs: set[str] = set()
        self.ended = False
        self._expected, self._began = expected, time.monotonic()
        self._changed = threading.Condition()
        self._work: JobStream | None = None

    def stop(self) -> None:
        """Stop within one step; what exists by then is still sent."""
        self.cancelled.set()
        if self._work is not None:
            self._work.cancel()

    def set_work(self, work: JobStream) -> None:
        """Set the work that ``stop`` cancels; cancel it if the job was stopped before."""
        self._work = work
        if self.cancelled.is_set():
            work.cancel()

    def is_abandoned(self) -> bool:
        """Return whether nobody has listened for longer than allowed."""
        # A page that reconnects has another Gradio session. A copy, as readers add to the set.
        own = tuple(self.sessions)
        idle_s = min(LISTENERS.idle_s(session, self._began) for session in own)
        patience_s = SETTINGS.away_s if self._expected else SETTINGS.unheard_s
        # A page that listened and left gets the longer time to reconnect.
        if self.kind.reconnects and any(LISTENERS.has_listened(session) for session in own):
            patience_s = max(patience_s, SETTINGS.away_s)
        return idle_s > patience_s

    def add(self, message: Any) -> None:
        """Store a message and wake the readers."""
        with self._changed:
            self.messages.append(message)
            if isinstance(message, RunMessage):
                self.runs.add(message.run)
            self._changed.notify_all()

    def end(self) -> None:
        """Say that no more messages come."""
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def wait_for_messages(self, known: int, within_s: float) -> tuple[list[Any], bool]:
        """Return the messages after the first ``known``, and whether they are the last ones."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.messages) > known or self.ended, within_s)
            return self.messages[known:], self.ended

    def read(self, session: str = "") -> Iterator[Any]:
        """Yield all messages from the first, as they come, until the job ends."""
        self.sessions.add(session)
        known, ended = 0, False
        while not ended:
            news, ended = self.wait_for_messages(known, HEARTBEAT_S)
            yield from news
            known += len(news)


class JobRegistry:
    """The running jobs of this process, and recently ended ones with their messages."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, PageJob] = OrderedDict()
        self._stopped: OrderedDict[str, None] = OrderedDict()
        self._reset_locks()
        os.register_at_fork(after_in_child=self._reset_locks)

    def _reset_locks(self) -> None:
        """Reset after a fork: another thread of the parent may have held them."""
        self._slots: dict[str, threading.Semaphore] = {}
        self._lock = threading.Lock()

    def start(
        self,
        kind: JobKind,
        job_id: str,
        payload: Payload,
        work: Callable[[PageJob], Iterator[Any]] | None = None,
    ) -> PageJob:
        """Return the job with this id; start it in a thread if there is none.

        Args:
            kind: its declaration.
            job_id: the page's id.
            payload: what the page sent.
            work: what to do instead of ``kind.messages``.
        """
        assert kind.messages is not None
        # A browser repeats a request after a lost connection; the job must not run twice.
        with self._lock:
            known = self._jobs.get(job_id)
            if known is not None:
                return known
            announced = LISTENERS.is_announced(job_id)
            job = PageJob(kind, job_id, current_session(), expected=announced)
            self._add(job)
        messages = work(job) if work else kind.messages(job, payload)
        # The visitor is a context variable of this thread; a new thread would start without it.
        run = copy_context().run
        arguments = (self._send_messages, job, payload, messages)
        threading.Thread(target=run, args=arguments, daemon=True).start()
        return job

    @contextmanager
    def run(self, kind: JobKind, job_id: Any = None) -> Iterator[PageJob]:
        """Do a job in the caller's thread once it has a slot; ``stop`` finds it meanwhile.

        Args:
            kind: its declaration.
            job_id: the page's id, or that of a part of the page; anything else means anonymous.

        Raises:
            StoppedError: it was stopped or abandoned.
            Cancelled: its page has asked again, for a kind with ``latest_only``.
            BusyError: no slot became free in time.
        """
        name = job_id if isinstance(job_id, str) else ""
        job = PageJob(kind, name, current_session(), expected=kind.reconnects)
        with self._lock:
            before = self._jobs.get(job.id)
            if kind.latest_only and before is not None:
                before.stop()
            self._add(job)
        try:
            with self._slot(job):
                yield job
        except Cancelled:
            if kind.latest_only:
                raise
            raise StoppedError(kind.stopped) from None
        finally:
            with self._lock:
                # A newer job of the same page may have replaced this one.
                if self._jobs.get(job.id) is job:
                    del self._jobs[job.id]

    def find(self, job_id: str) -> PageJob | None:
        """Return the running or recently ended job with this id, or None."""
        with self._lock:
            return self._jobs.get(job_id)

    def stop(self, job_id: str) -> None:
        """Stop a job, or the one that will come under this id; an ended one stays as it is."""
        with self._lock:
            job = self._jobs.get(job_id)
            if job is None:
                self._stopped[job_id[:_MAX_ID_CHARS]] = None
                while len(self._stopped) > _MAX_STOPPED:
                    self._stopped.popitem(last=False)
        if job is not None:
            job.stop()

    def run_messages(self, run_id: str) -> list[RunMessage]:
        """Return the messages of a run from memory or the journal; empty for an unknown run."""
        with self._lock:
            job = next((job for job in self._jobs.values() if run_id in job.runs), None)
        if job is None:
            return JOURNAL.stored_messages(run_id)
        return [m for m in tuple(job.messages) if isinstance(m, RunMessage) and m.run == run_id]

    def _add(self, job: PageJob) -> None:
        """Register a job; drop the oldest ended ones beyond the limit. Needs the lock."""
        self._jobs[job.id] = job
        # The id of ``latest_only`` is used again, so a late stop must not reach the next job.
        if job.id in self._stopped and not job.kind.latest_only:
            job.stop()
        self._stopped.pop(job.id, None)
        ended = [name for name, known in self._jobs.items() if known.ended]
        for name in ended[: max(0, len(ended) - _MAX_ENDED)]:
            del self._jobs[name]

    @contextmanager
    def _slot(self, job: PageJob) -> Iterator[None]:
        """Wait for one of the slots of the job's kind."""
        kind = job.kind
        if kind.slots is None:
            yield
            return
        with self._lock:
            slots = self._slots.setdefault(kind.name, threading.Semaphore(kind.slots))
        until = None if kind.wait_s is None else time.monotonic() + kind.wait_s
        while not slots.acquire(timeout=_POLL_S):
            if job.cancelled.is_set():
                raise Cancelled
            if until is not None and time.monotonic() > until:
                raise BusyError(kind.busy)
        try:
            yield
        finally:
            slots.release()

    def _send_messages(self, job: PageJob, payload: Payload, messages: Iterator[Any]) -> None:
        """Body of a job's thread: a page gets a last message after every error."""
        about = job.kind.about(payload)

        def add(message: Any) -> None:
            job.add(TabMessage({**message, **about}) if isinstance(message, dict) else message)

        lazy_imports.wait_until_loaded()
        try:
            with self._slot(job):
                for message in messages:
                    add(message)
                    if job.is_abandoned():
                        messages.close()  # type: ignore[attr-defined]
                        return
        # A panic of the tokenizer library is no Exception, see ``guard``.
        except BaseException as error:
            stopped = StoppedError(job.kind.stopped) if isinstance(error, Cancelled) else error
            add(job.kind.failure(stopped))
        finally:
            job.end()


JOBS = JobRegistry()
