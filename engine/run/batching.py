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

    def __init__(self, do: Callable[[EventCallback], None], ticket: Ticket) -> None:
        self.do, self.ticket, self.context = do, ticket, copy_context()
        self.events = QueueStreamer(maxsize=None)
        self.cache: slots.SharedCache | None = None
        self.ids = torch.zeros(0)
        self.greenlet: greenlet | None = None
        self.error: BaseException | None = None
        self.over = threading.Event()

    def start(self) -> None:
        """Run until the first request for a pass; called in the batch's thread."""
        # Made here and not in the constructor, whose thread is that of the reader.
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
        self.joining: list[_BatchMember] = []
        self._members: list[_BatchMember] = []
        self._over: list[_BatchMember] = []
        self._slots = slots.Slots(loaded.model, SETTINGS.max_shared_runs)
        self._hub = getcurrent()
        threading.Thread(target=self._serve, daemon=True).start()

    def create_cache(self) -> slots.SharedCache:
        """Return a new cache for the calling run; call it from within its ``do``."""
        own = next(s for s in self._members if s.greenlet is getcurrent())
        own.cache = checked_cache.CheckedCache(self._slots, self._wait_for_pass)
        return own.cache

    def _wait_for_pass(self, cache: slots.SharedCache, ids: torch.Tensor) -> torch.Tensor | None:
        """Yield until the next pass and return its logits; see ``slots.PassRequest``."""
        own = next(s for s in self._members if s.cache is cache)
        own.ids = ids
        return self._hub.switch()

    def _serve(self) -> None:
        """Run passes until the batch is empty, then end the thread."""
        try:
            # Both modes belong to a thread, and all runs of the batch decode in this one.
            with self.loaded.lock, torch.no_grad(), torch.inference_mode():
                # Of this thread: a greenlet can only be switched to in the thread that made it.
                self._hub = getcurrent()
                while self._admit():
                    self._advance_all()
        except BaseException as error:
            _LOG.error("runs that shared passes ended: %s", type(error).__name__)
            with _LOCK:
                _BATCHES.pop(id(self.loaded), None)
            for member in (*self._members, *self.joining):
                member.error = error
            self._over += [*self._members, *self.joining]
        # A reader may end this process, so torch's state of this thread is released before.
        self._send_ends()

    def _send_ends(self) -> None:
        for member in self._over:
            member.send_end()
        self._over = []

    def _admit(self) -> bool:
        """Start the runs that have joined; return False and remove the batch if it is empty."""
        with _LOCK:
            new, self.joining = self.joining, []
            # Under the lock: a run that joins now finds this batch or none, never an ended one.
            self._members += new
            if not self._members:
                del _BATCHES[id(self.loaded)]
                return False
        self._send_ends()
        for member in new:
            member.start()
        return True

    def _advance_all(self) -> None:
        """Remove finished runs, let others compute if due, make one pass, continue the ready runs."""
        for member in [s for s in self._members if s.has_ended]:
            self._members.remove(member)
            self._over.append(member)
            if member.cache is not None:
                member.cache.leave_batch()
        if self._members:
            tickets = [member.ticket for member in self._members]
            tickets[0].give_way(tickets=tickets)
        ready = [member for member in self._members if member.can_continue]
        if not ready and self._members:
            # Every reader is behind: wait until one has caught up or has left.
            time.sleep(_POLL_S)
        for member, logits in self._run_pass(ready):
            assert member.greenlet is not None
            member.greenlet.switch(logits)

    def _run_pass(
        self, ready: list[_BatchMember]
    ) -> list[tuple[_BatchMember, torch.Tensor | None]]:
        """Return the logits of a joint pass per run, None for a run that makes its pass alone."""
        together = [member for member in ready if self._assign_seats(member)]
        tokens = {
            seat: token
            for member in together
            for seat, [token] in zip(_require_cache(member).seats, member.ids.tolist(), strict=True)
        }
        try:
            logits = self._slots.read_tokens(tokens) if tokens else None
        except Exception as error:  # each run can still make its pass alone
            _LOG.error("a shared pass failed: %s", type(error).__name__)
            slots.forbid_sharing(self.loaded)
            logits = None
        if logits is None:
            return [(member, None) for member in ready]
        rows = {id(s): [seat.row for seat in _require_cache(s).seats] for s in together}
        return [(s, logits[rows[id(s)]] if id(s) in rows else None) for s in ready]

    def _assign_seats(self, member: _BatchMember) -> bool:
        """Assign cache rows to a run if others share passes; return whether it has any."""
        cache = _require_cache(member)
        margin = (
            slots.measure_margin(self.loaded) if len(self._members) > 1 or cache.seats else None
        )
        if margin is None:
            return False
        # join_batch copies the run's cache into free rows of the batch: once, and only in company.
        if not cache.seats and not cache.apart:
            cache.join_batch(margin)
        return bool(cache.seats)


def _require_cache(member: _BatchMember) -> slots.SharedCache:
    assert member.cache is not None
    return member.cache


_BATCHES: dict[int, BatchedRuns] = {}
"""id(model) -> its batch."""
_LOCK = threading.Lock()


def run_batched(
    loaded: LoadedModel,
    ticket: Ticket,
    do: Callable[[EventCallback, BatchedRuns], None],
    send: EventCallback,
) -> None:
    """Decode a run in the batch of its model.

    Args:
        loaded: the model.
        ticket: the run's ticket.
        do: decodes; takes the event callback and the batch. It ends soon after its reader leaves,
            when the callback raises Cancelled.
        send: receives the events in the calling thread.

    Raises:
        BaseException: an exception of ``do`` or ``send``.
    """
    with _LOCK:
        batch = _BATCHES.get(id(loaded)) or BatchedRuns(loaded)
        # The batch refers to its model, so no other model can get this id while it is listed.
        _BATCHES[id(loaded)] = batch
        member = _BatchMember(lambda put: do(put, batch), ticket)
        batch.joining.append(member)
    try:
        for event in member.events:
            send(event)
    finally:
        member.events.close()
        member.over.wait()  # takes up to one step; nothing of the run continues after the return
