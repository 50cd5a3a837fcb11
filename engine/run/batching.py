"""Decodes several runs of one model in one thread, with joint passes over one token each.

Every run keeps its own generator, processors and record. It yields (a greenlet,
https://greenlet.readthedocs.io) when it needs a pass over its newest token, until all others do;
one pass then serves all. Runs join and leave between passes. One thread, since computing threads
that take turns slow each other down; see one_shot_thread.py.
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
from engine.run import checked_cache
from engine.run.streamer import QueueStreamer
from engine.run.ticket import Ticket
from engine.settings import SETTINGS

EventCallback = Callable[[Any], None]
_MAX_AHEAD = 64
"""Events that a run may be ahead of its reader before the batch continues without it."""
_POLL_S = 0.01
_LOG = logging.getLogger("engine")


class _BatchMember:
    """A run in a batch.

    Args:
        do: decodes; takes the event callback.
        place: its ticket.
    """

    def __init__(self, do: Callable[[EventCallback], None], place: Ticket) -> None:
        self.do, self.place, self.context = do, place, copy_context()
        self.events = QueueStreamer(maxsize=None)
        self.cache: slots.SharedCache | None = None
        self.ids = torch.zeros(0)
        self.greenlet: greenlet | None = None
        self.error: BaseException | None = None
        self.over = threading.Event()

    def start(self) -> None:
        """Run until the first request for a pass; called in the batch's thread."""
        self.greenlet = greenlet(self._run_job)
        # Context variables such as VISITOR follow the run into the batch's thread.
        self.greenlet.gr_context = self.context
        self.greenlet.switch()

    def _run_job(self) -> None:
        try:
            self.do(self.events.put)
        except BaseException as error:
            self.error = error

    def send_end(self) -> None:
        """Send the end, or the error, to the reader."""
        if self.error is None:
            self.events.end()
        else:
            self.events.fail(self.error)
        self.over.set()

    @property
    def has_ended(self) -> bool:
        """Whether the run has returned."""
        return self.greenlet is not None and self.greenlet.dead

    @property
    def can_continue(self) -> bool:
        """Whether the reader has kept up, or has left (then the run must notice)."""
        return self.events.closed or self.events.size < _MAX_AHEAD


class BatchedRuns:
    """The batch of runs that share the passes of one model.

    Args:
        loaded: the model; its lock is held while the batch is not empty.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.loaded = loaded
        self.coming: list[_BatchMember] = []
        self._sharers: list[_BatchMember] = []
        self._over: list[_BatchMember] = []
        self._slots = slots.Slots(loaded.model, SETTINGS.max_shared_runs)
        self._hub = getcurrent()
        threading.Thread(target=self._serve, daemon=True).start()

    def create_cache(self) -> slots.SharedCache:
        """Return a new cache for the calling run; call it from within its ``do``."""
        own = next(s for s in self._sharers if s.greenlet is getcurrent())
        own.cache = checked_cache.CheckedCache(self._slots, self._wait_for_pass)
        return own.cache

    def _wait_for_pass(self, cache: slots.SharedCache, ids: torch.Tensor) -> torch.Tensor | None:
        """Yield until the next pass and return its logits; see ``slots.PassRequest``."""
        own = next(s for s in self._sharers if s.cache is cache)
        own.ids = ids
        return self._hub.switch()

    def _serve(self) -> None:
        """Run passes until the batch is empty, then end the thread."""
        try:
            with self.loaded.lock, torch.no_grad(), torch.inference_mode():
                self._hub = getcurrent()
                while self._admit():
                    self._advance_all()
        except BaseException as error:
            _LOG.error("runs that shared passes ended: %s", type(error).__name__)
            with _LOCK:
                _BATCHES.pop(id(self.loaded), None)
            for sharer in (*self._sharers, *self.coming):
                sharer.error = error
            self._over += [*self._sharers, *self.coming]
        # A reader may end this process, so torch's state of this thread is released before.
        self._send_ends()

    def _send_ends(self) -> None:
        for sharer in self._over:
            sharer.send_end()
        self._over = []

    def _admit(self) -> bool:
        """Start the runs that have joined; return False and remove the batch if it is empty."""
        with _LOCK:
            new, self.coming = self.coming, []
            self._sharers += new
            if not self._sharers:
                del _BATCHES[id(self.loaded)]
                return False
        self._send_ends()
        for sharer in new:
            sharer.start()
        return True

    def _advance_all(self) -> None:
        """Remove finished runs, let others compute if due, make one pass, continue the ready runs."""
        for sharer in [s for s in self._sharers if s.has_ended]:
            self._sharers.remove(sharer)
            self._over.append(sharer)
            if sharer.cache is not None:
                sharer.cache.leave_batch()
        if self._sharers:
            places = [sharer.place for sharer in self._sharers]
            places[0].give_way(told=places)
        ready = [sharer for sharer in self._sharers if sharer.can_continue]
        if not ready and self._sharers:
            time.sleep(_POLL_S)
        for sharer, logits in self._run_pass(ready):
            assert sharer.greenlet is not None
            sharer.greenlet.switch(logits)

    def _run_pass(
        self, ready: list[_BatchMember]
    ) -> list[tuple[_BatchMember, torch.Tensor | None]]:
        """Return the logits of a joint pass per run, None for a run that makes its pass alone."""
        together = [sharer for sharer in ready if self._assign_seats(sharer)]
        tokens = {
            seat: token
            for sharer in together
            for seat, [token] in zip(_require_cache(sharer).seats, sharer.ids.tolist(), strict=True)
        }
        try:
            logits = self._slots.read_tokens(tokens) if tokens else None
        except Exception as error:  # each run can still make its pass alone
            _LOG.error("a shared pass failed: %s", type(error).__name__)
            slots.forbid_sharing(self.loaded)
            logits = None
        if logits is None:
            return [(sharer, None) for sharer in ready]
        rows = {id(s): [seat.row for seat in _require_cache(s).seats] for s in together}
        return [(s, logits[rows[id(s)]] if id(s) in rows else None) for s in ready]

    def _assign_seats(self, sharer: _BatchMember) -> bool:
        """Assign cache rows to a run if others share passes; return whether it has any."""
        cache = _require_cache(sharer)
        margin = (
            slots.measure_margin(self.loaded) if len(self._sharers) > 1 or cache.seats else None
        )
        if margin is None:
            return False
        if not cache.seats and not cache.apart:
            cache.join_batch(margin)
        return bool(cache.seats)


def _require_cache(sharer: _BatchMember) -> slots.SharedCache:
    assert sharer.cache is not None
    return sharer.cache


_BATCHES: dict[int, BatchedRuns] = {}
"""id(model) -> its batch."""
_LOCK = threading.Lock()


def run_batched(
    loaded: LoadedModel,
    place: Ticket,
    do: Callable[[EventCallback, BatchedRuns], None],
    send: EventCallback,
) -> None:
    """Decode a run in the batch of its model.

    Args:
        loaded: the model.
        place: the run's ticket.
        do: decodes; takes the event callback and the batch. It ends soon after its reader leaves,
            when the callback raises Cancelled.
        send: receives the events in the calling thread.

    Raises:
        BaseException: an exception of ``do`` or ``send``.
    """
    with _LOCK:
        company = _BATCHES.get(id(loaded)) or BatchedRuns(loaded)
        _BATCHES[id(loaded)] = company
        sharer = _BatchMember(lambda put: do(put, company), place)
        company.coming.append(sharer)
    try:
        for event in sharer.events:
            send(event)
    finally:
        sharer.events.close()
        sharer.over.wait()  # takes up to one step; nothing of the run continues after the return
