"""Runs of one model side by side in one thread, where their passes over one token are made together.

Every run decodes as it does alone, down to its generator, its processors and its record; only where it would
run the model over its newest token does it stand aside (a greenlet, https://greenlet.readthedocs.io) until all
others have come so far, and one pass serves them all. A run joins and leaves between two passes. They have one
thread, as threads that compute in turns slow each other down; see aside.py.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import torch
from greenlet import getcurrent, greenlet

from engine.models import slots
from engine.models.loading import LoadedModel
from engine.run.streamer import QueueStreamer
from engine.settings import SETTINGS

Send = Callable[[Any], None]
_AHEAD = 64
"""Events that a run may be ahead of its reader; then the others go on without it."""
_POLL_S = 0.01
_LOG = logging.getLogger("engine")


class _Sharer:
    """A run among others.

    Args:
        do: decodes, given what takes its events.
    """

    def __init__(self, do: Callable[[Send], None]) -> None:
        self.do, self.context = do, copy_context()
        self.events = QueueStreamer(maxsize=None)
        self.cache: slots.SharedCache | None = None
        self.ids = torch.zeros(0)
        self.greenlet: greenlet | None = None
        self.error: BaseException | None = None
        self.over = threading.Event()

    def start(self) -> None:
        """Let it go on until it stands aside for the first time; in the thread of the company."""
        self.greenlet = greenlet(self._go)
        self.greenlet.gr_context = self.context
        self.greenlet.switch()

    def _go(self) -> None:
        try:
            self.do(self.events.put)
        except BaseException as error:
            self.error = error

    def tell_end(self) -> None:
        """Tell its reader that nothing more comes, or why."""
        if self.error is None:
            self.events.end()
        else:
            self.events.fail(self.error)
        self.over.set()

    @property
    def ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self.greenlet is not None and self.greenlet.dead

    @property
    def goes_on(self) -> bool:
        """Whether its reader has kept up, or has left: then it is to notice."""
        return self.events.closed or self.events.size < _AHEAD


class SharedRuns:
    """The runs of one model that go on side by side.

    Args:
        loaded: the model; its lock is held while there are any.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.coming: list[_Sharer] = []
        self._sharers: list[_Sharer] = []
        self._over: list[_Sharer] = []
        self._slots = slots.Slots(loaded.model, SETTINGS.max_shared_runs)
        self._hub = getcurrent()
        threading.Thread(target=self._go, daemon=True).start()

    def cache(self) -> slots.SharedCache:
        """Return the cache of the run that asks, from within its ``do``."""
        own = next(s for s in self._sharers if s.greenlet is getcurrent())
        own.cache = slots.SharedCache(self._slots, self._ask)
        return own.cache

    def _ask(self, cache: slots.SharedCache, ids: torch.Tensor) -> torch.Tensor | None:
        """Stand aside until the next pass; see ``slots.Ask``."""
        own = next(s for s in self._sharers if s.cache is cache)
        own.ids = ids
        return self._hub.switch()

    def _go(self) -> None:
        """Serve all there are, in a thread that ends with the last of them."""
        try:
            with self.loaded.lock, torch.no_grad(), torch.inference_mode():
                self._hub = getcurrent()
                while self._let_in():
                    self._round()
        except BaseException as error:
            _LOG.error("runs that shared passes ended: %s", type(error).__name__)
            with _LOCK:
                _COMPANIES.pop(id(self.loaded), None)
            for sharer in (*self._sharers, *self.coming):
                sharer.error = error
            self._over += [*self._sharers, *self.coming]
        # Whoever hears of the end may end this process: what torch has set up in this thread is put down by now.
        self._tell_ends()

    def _tell_ends(self) -> None:
        for sharer in self._over:
            sharer.tell_end()
        self._over = []

    def _let_in(self) -> bool:
        """Let begin what has come; return whether there is anybody."""
        with _LOCK:
            new, self.coming = self.coming, []
            self._sharers += new
            if not self._sharers:
                del _COMPANIES[id(self.loaded)]
                return False
        self._tell_ends()
        for sharer in new:
            sharer.start()
        return True

    def _round(self) -> None:
        """Let everybody go one step further who can."""
        for sharer in [s for s in self._sharers if s.ended]:
            self._sharers.remove(sharer)
            self._over.append(sharer)
            if sharer.cache is not None:
                sharer.cache.leave()
        ready = [sharer for sharer in self._sharers if sharer.goes_on]
        if not ready and self._sharers:
            time.sleep(_POLL_S)
        for sharer, logits in self._passed(ready):
            assert sharer.greenlet is not None
            sharer.greenlet.switch(logits)

    def _passed(self, ready: list[_Sharer]) -> list[tuple[_Sharer, torch.Tensor | None]]:
        """Return what a pass says to each, None to those who make it alone."""
        together = [sharer for sharer in ready if self._is_seated(sharer)]
        tokens = {
            seat: token
            for sharer in together
            for seat, [token] in zip(_cache(sharer).seats, sharer.ids.tolist(), strict=True)
        }
        try:
            logits = self._slots.read(tokens) if tokens else None
        except Exception as error:  # each of them can still do it alone
            _LOG.error("a shared pass failed: %s", type(error).__name__)
            slots.forbid(self.loaded)
            logits = None
        if logits is None:
            return [(sharer, None) for sharer in ready]
        rows = {id(s): [seat.row for seat in _cache(s).seats] for s in together}
        return [(s, logits[rows[id(s)]] if id(s) in rows else None) for s in ready]

    def _is_seated(self, sharer: _Sharer) -> bool:
        """Return whether a run goes along in shared passes; it is given seats where there are others."""
        cache = _cache(sharer)
        margin = slots.margin_of(self.loaded) if len(self._sharers) > 1 or cache.seats else None
        if margin is None:
            return False
        if not cache.seats and not cache.apart:
            cache.sit(margin)
        return bool(cache.seats)


def _cache(sharer: _Sharer) -> slots.SharedCache:
    assert sharer.cache is not None
    return sharer.cache


_COMPANIES: dict[int, SharedRuns] = {}
"""Of models that anybody decodes with in company, by their ids."""
_LOCK = threading.Lock()


def in_company(loaded: LoadedModel, do: Callable[[Send, SharedRuns], None], send: Send) -> None:
    """Decode side by side with all others that do so with this model.

    Args:
        loaded: the model.
        do: decodes, given what takes its events and the company that it is in; it ends soon once its events
            are not taken any more, which raises Cancelled.
        send: takes the events, in the calling thread.

    Raises:
        BaseException: what ``do`` or ``send`` raised.
    """
    with _LOCK:
        company = _COMPANIES.get(id(loaded)) or SharedRuns(loaded)
        _COMPANIES[id(loaded)] = company
        sharer = _Sharer(lambda put: do(put, company))
        company.coming.append(sharer)
    try:
        for event in sharer.events:
            send(event)
    finally:
        sharer.events.close()
        sharer.over.wait()  # until its next step: nothing of it goes on once this returns
