"""What a page has begun goes on when its connection breaks, and is told to the page that comes back.

Every press of a page has an unguessable name of its own. What it began runs in a thread beside Gradio's
handler, which only reads on; a page that comes back asks for it by that name and is given what it missed.
What nobody listens to any more is stopped after a while.
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
from playground.elements import sent_with
from playground.listening import LISTENERS
from playground.meanwhile import BEAT_S
from playground.visitors import remember, session

ENDED = (
    "What ran here is not known any more: it ended while this page was away, or the server was started anew."
    " Press Run to start again."
)
_KEPT = 64
_MAX_NAME = 64


class Going:
    """Messages of something that goes on, for everybody who reads them.

    Args:
        messages: makes it go on; closed when nobody listens any more.
        session: whose streams listen to it.
        away_s: seconds for which nobody may listen.
    """

    def __init__(self, messages: Generator[Any, None, None], session: str, away_s: float) -> None:
        self.sessions, self.away_s = {session}, away_s
        self.ended_at: float | None = None
        self._messages = messages
        self._told: list[Any] = []
        self._changed = threading.Condition()
        self._began = time.monotonic()
        # Who asks for it is known where it begins alone.
        context = copy_context()
        threading.Thread(target=context.run, args=(self._go,), daemon=True).start()

    def read(self, session: str) -> Generator[Any, None, None]:
        """Yield its messages from the first to the last.

        Args:
            session: who reads.
        """
        self.sessions.add(session)
        at, ended = 0, False
        while not ended:
            with self._changed:
                self._changed.wait_for(lambda at=at: len(self._told) > at or self.ended_at, BEAT_S)
                news, ended = self._told[at:], self.ended_at is not None
            yield from news
            at += len(news)

    def _go(self) -> None:
        try:
            for message in self._messages:
                with self._changed:
                    self._told.append(message)
                    self._changed.notify_all()
                if self._forgotten():
                    self._messages.close()
                    return
        finally:
            with self._changed:
                self.ended_at = time.monotonic()
                self._changed.notify_all()

    def _forgotten(self) -> bool:
        """Return whether nobody has listened for longer than somebody may be away."""
        own = tuple(self.sessions)
        alone = min(LISTENERS.alone_s(session, self._began) for session in own)
        came = any(LISTENERS.came(session) for session in own)
        return alone > (max(self.away_s, SETTINGS.away_s) if came else self.away_s)


class AllGoing:
    """What goes on of one kind, by the names that pages gave it."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Going] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, name: str, messages: Generator[Any, None, None], session: str) -> Going:
        """Let something go on under a name; what goes on under it already goes on, and is not begun again."""
        away_s = SETTINGS.away_s if LISTENERS.announced(name) else SETTINGS.unheard_s
        with self._lock:
            known = self._known.get(name)
            if known is not None:
                return known
            going = self._known[name] = Going(messages, session, away_s)
            for over in self._over():
                del self._known[over]
        return going

    def _over(self) -> list[str]:
        """Return the names of what has ended so long ago that nobody comes back for it."""
        ended = [(name, g.ended_at) for name, g in self._known.items() if g.ended_at is not None]
        before = time.monotonic() - SETTINGS.away_s
        old = [name for name, at in ended if at < before]
        return old or [name for name, _ in ended][: max(0, len(self._known) - _KEPT)]

    def named(self, name: str) -> Going | None:
        """Return what goes on under a name, or has ended lately."""
        with self._lock:
            return self._known.get(name)


def outliving(
    do: Callable[[dict[str, Any]], Generator[Any, None, None]],
    lost: Callable[[dict[str, Any]], Any],
    has: Callable[[dict[str, Any], Any], bool] = lambda asked, message: False,
    again: Callable[[dict[str, Any]], Generator[Any, None, None] | None] = lambda asked: None,
) -> Callable[[gr.EventData], Generator[Any, None, None]]:
    """Return a handler of a page's presses that goes on with them while the page is away.

    Args:
        do: what a press begins, given what the page sent with it.
        lost: the one message for a page that asks for what is not known any more.
        has: whether a page that comes back, given what it sent, has a message already.
        again: what goes on with what another process has begun, None where nothing can.
    """
    known = AllGoing()

    def handler(event: gr.EventData) -> Generator[Any, None, None]:
        asked = sent_with(event)
        remember()
        own, name = session(), str(asked.get("press") or uuid.uuid4().hex)[:_MAX_NAME]
        if asked.get("resume") is not True:
            yield from known.begin(name, do(asked), own).read(own)
            return
        going = known.named(name)
        if going is None:
            more = again(asked)
            if more is None:
                yield lost(asked)
                return
            going = known.begin(name, more, own)
        yield from (message for message in going.read(own) if not has(asked, message))

    return handler
