"""Background jobs that survive a lost connection.

Each press of Run has an unguessable id. Its job runs in a thread, and the Gradio handler only reads
its messages. A page that reconnects sends the id and gets the messages it missed. Jobs without
listeners are stopped after a while.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextvars import copy_context
from typing import Any

import gradio as gr

from engine.settings import SETTINGS
from playground.jobs.progress import HEARTBEAT_S
from playground.shell.elements import event_data
from playground.shell.listeners import LISTENERS
from playground.shell.visitors import current_session, set_current_visitor

ENDED_MESSAGE = (
    "What ran here is not known any more: it ended while this page was away, or the server was started anew."
    " Press Run to start again."
)
_MAX_JOBS = 64
_MAX_NAME = 64


class BackgroundJob:
    """A generator that runs in a thread and stores its messages for any number of readers.

    Args:
        messages: the generator; it is closed when the job has no listeners.
        session: the first session that reads it.
        away_s: seconds without a listener after which the job stops.

    Attributes:
        ended_at: ``time.monotonic()`` of its end, or None while it runs.
    """

    def __init__(self, messages: Generator[Any, None, None], session: str, away_s: float) -> None:
        self.sessions, self.away_s = {session}, away_s
        self.ended_at: float | None = None
        self._messages = messages
        self._told: list[Any] = []
        self._changed = threading.Condition()
        self._began = time.monotonic()
        # The visitor is a context variable of this thread; a new thread would start without it.
        context = copy_context()
        threading.Thread(target=context.run, args=(self._run,), daemon=True).start()

    def read(self, session: str) -> Generator[Any, None, None]:
        """Yield all messages from the first, as they come, until the job ends.

        Args:
            session: the session that reads.
        """
        self.sessions.add(session)
        at, ended = 0, False
        while not ended:
            with self._changed:
                self._changed.wait_for(
                    lambda at=at: len(self._told) > at or self.ended_at, HEARTBEAT_S
                )
                news, ended = self._told[at:], self.ended_at is not None
            yield from news
            at += len(news)

    def _run(self) -> None:
        try:
            for message in self._messages:
                with self._changed:
                    self._told.append(message)
                    self._changed.notify_all()
                if self._is_abandoned():
                    self._messages.close()
                    return
        finally:
            with self._changed:
                self.ended_at = time.monotonic()
                self._changed.notify_all()

    def _is_abandoned(self) -> bool:
        """Return whether the job had no listener for longer than allowed."""
        # A reader that listened and left gets the longer time to reconnect.
        # A page that reconnects has another Gradio session. A copy, as readers add to the set.
        own = tuple(self.sessions)
        alone = min(LISTENERS.idle_s(session, self._began) for session in own)
        came = any(LISTENERS.has_listened(session) for session in own)
        return alone > (max(self.away_s, SETTINGS.away_s) if came else self.away_s)


class JobRegistry:
    """Background jobs of one kind, by the ids that pages gave them."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, BackgroundJob] = OrderedDict()
        self._lock = threading.Lock()

    def start(self, name: str, messages: Generator[Any, None, None], session: str) -> BackgroundJob:
        """Return the job with this id; start it from ``messages`` if there is none."""
        # A browser repeats a request after a lost connection; the job must not run twice.
        away_s = SETTINGS.away_s if LISTENERS.is_announced(name) else SETTINGS.unheard_s
        with self._lock:
            known = self._known.get(name)
            if known is not None:
                return known
            going = self._known[name] = BackgroundJob(messages, session, away_s)
            for over in self._expired_names():
                del self._known[over]
        return going

    def _expired_names(self) -> list[str]:
        """Return the ids of ended jobs to drop: expired ones, else the oldest beyond the limit."""
        ended = [(name, g.ended_at) for name, g in self._known.items() if g.ended_at is not None]
        before = time.monotonic() - SETTINGS.away_s
        old = [name for name, at in ended if at < before]
        return old or [name for name, _ in ended][: max(0, len(self._known) - _MAX_JOBS)]

    def find(self, name: str) -> BackgroundJob | None:
        """Return the running or recently ended job with this id, or None."""
        with self._lock:
            return self._known.get(name)


def resumable(
    do: Callable[[dict[str, Any]], Generator[Any, None, None]],
    lost: Callable[[dict[str, Any]], Any],
    has: Callable[[dict[str, Any], Any], bool] = lambda asked, message: False,
    again: Callable[[dict[str, Any]], Generator[Any, None, None] | None] = lambda asked: None,
) -> Callable[[gr.EventData], Generator[Any, None, None]]:
    """Return a Gradio handler whose work continues while the page is disconnected.

    Args:
        do: starts the work of a press, given what the page sent.
        lost: returns the one message for a page that resumes an unknown job.
        has: returns whether a resuming page already has a message.
        again: returns the rest of a job that another process began, or None if it cannot be taken
            over.
    """
    known = JobRegistry()

    def handler(event: gr.EventData) -> Generator[Any, None, None]:
        asked = event_data(event)
        set_current_visitor()
        own, name = current_session(), str(asked.get("press") or uuid.uuid4().hex)[:_MAX_NAME]
        if asked.get("resume") is not True:
            # ``do`` returns a generator: it does not run if the job exists.
            yield from known.start(name, do(asked), own).read(own)
            return
        going = known.find(name)
        if going is None:
            more = again(asked)
            if more is None:
                yield lost(asked)
                return
            going = known.start(name, more, own)
        yield from (message for message in going.read(own) if not has(asked, message))

    return handler
