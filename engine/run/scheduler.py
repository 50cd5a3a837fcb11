"""Schedules all work that computes: one queue, fair between visitors, first come first served.

The visitor with the fewest turns is served next. An address shares its turns among its sessions
(start-time fair queueing, Goyal et al. 1996, with turns as lengths). A ticket is taken before
anything is loaded. One more ticket than may compute can load its models, so a slow load does not
delay others and memory stays bounded. Among the ready tickets the earliest computes, and a long
one gives way between two steps (turn_taking.py). The worker that took a ticket always releases it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from engine.errors import BusyError, Cancelled
from engine.messages import Message
from engine.run import turn_taking
from engine.run.duration_estimator import DurationEstimator
from engine.run.ticket import EventCallback, Ticket
from engine.run.turn_taking import LOADING, PAUSED, RELEASED, RUNNING, WAITING
from engine.run.visitor import Visitor
from engine.settings import SETTINGS
from engine.trace.events import Event, Waiting

_POLL_S = 0.05
_EVENTS_PER_S = 25
"""Progress events a second for all waiting tickets together: each one costs the running run."""
_CHECKS_PER_S = 500
"""Polls a second of all waiting tickets together; a change of the queue wakes them anyway."""


def ignore_event(event: Event) -> None:
    """Discard an event."""
    del event


def compute_event_interval(places: int) -> float:
    """Return the seconds between two progress events of one ticket in a queue of this length."""
    return places / _EVENTS_PER_S


class RunQueue:
    """The queue of all tickets of this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._tickets: list[Ticket] = []
        # Tickets that may load or compute, in order of admission.
        self._inside: list[Ticket] = []
        self._pace = DurationEstimator()

    def __len__(self) -> int:
        return len(self._tickets)

    @contextmanager
    def open_ticket(
        self,
        cancelled: threading.Event,
        tell: EventCallback = ignore_event,
        kind: Hashable = None,
        size: float = 1.0,
    ) -> Iterator[Ticket]:
        """Yield a new ticket at its fair position; it is removed at the end.

        Args:
            cancelled: leaves the queue when set.
            tell: receives Waiting events; an exception from it ends the wait.
            kind: work of one kind takes time in proportion to its size.
            size: amount of work.

        Raises:
            BusyError: the queue is full, or this visitor's address has reached its limit.
        """
        ticket = Ticket(self, kind, size, cancelled, tell)
        with self._changed:
            waiting = len(self._tickets) - SETTINGS.max_concurrent_runs
            if waiting >= SETTINGS.max_waiting_runs:
                raise queue_full_error(waiting)
            # In one block with the counting, so that two arrivals cannot both take the last place.
            self._check_address_limit(ticket.visitor)
            self._enqueue(ticket)
        try:
            yield ticket
        finally:
            with self._changed:
                self._tickets.remove(ticket)
                if ticket in self._inside:
                    self._inside.remove(ticket)
                self._changed.notify_all()

    def describe_wait(self, ticket: Ticket) -> Waiting:
        """Return the number of tickets ahead of one, and their expected seconds."""
        with self._changed:
            served = self._service_order()
            ahead = served[: served.index(ticket)]
            return Waiting(len(ahead), self._estimate_seconds(ahead, ticket.visitor))

    def release_ticket(self, ticket: Ticket) -> None:
        """Stop counting a ticket; it still occupies its place in the queue limit."""
        with self._changed:
            ticket.state = RELEASED
            self._changed.notify_all()

    def requeue_ticket(self, ticket: Ticket) -> None:
        """Count a released ticket again, as the newest arrival."""
        with self._changed:
            self._tickets.remove(ticket)
            self._enqueue(ticket)
            self._changed.notify_all()

    def try_advance(self, ticket: Ticket, state: int) -> bool:
        """Move a ticket to a state if it is its turn; return whether it was."""
        with self._changed:
            allowed = (
                self._can_load(ticket)
                if state == LOADING
                else ticket in turn_taking.find_starting(self._inside)
            )
            if allowed:
                if state == LOADING:
                    self._admit(ticket)
                elif self._turn_of(ticket, PAUSED):
                    ticket.batch_key = None  # its batch is full and paused
                now = time.perf_counter()
                ticket.since = now
                # A run that joins a batch joins its turn: a new start would prolong the turn of them all.
                ticket.turn_since = min((o.turn_since for o in self._turn_of(ticket)), default=now)
                ticket.state = state
                self._changed.notify_all()
            return allowed

    def pause_turn(self, ticket: Ticket) -> bool:
        """Pause the turn of a running ticket if another address is due; return whether it was."""
        with self._changed:
            turn = self._turn_of(ticket)
            if not turn_taking.find_due(turn, self._inside):
                return False
            for other in turn:
                other.keeps_state = other.check_state()
            # Whoever needs a model that holds something of this turn is not due after all.
            if not turn_taking.find_due(turn, self._inside):
                return False
            now = time.perf_counter()
            for other in turn:
                other.computed_s += now - other.since
                other.since, other.state = now, PAUSED
                self._inside.remove(other)
                other.work.pause()
            # To the end of the order: of those inside, the earliest computes next.
            self._inside += turn
            ticket.restore_limits = ticket.lift_limits()
            self._changed.notify_all()
            return True

    def resume_turn(self, ticket: Ticket) -> bool:
        """Resume the turn of a paused ticket if nobody is before it; return whether it did."""
        with self._changed:
            if ticket not in turn_taking.find_starting(self._inside):
                return False
            now, turn = time.perf_counter(), self._turn_of(ticket, PAUSED)
            ticket.restore_limits()
            for other in turn:
                other.waited_s += now - other.since
                other.since = other.turn_since = now
                other.state, other.keeps_state = RUNNING, False
                other.work.resume()
            self._changed.notify_all()
            return True

    def _turn_of(self, ticket: Ticket, state: int = RUNNING) -> list[Ticket]:
        """Return the tickets in a state that compute together with this one."""
        return [
            other
            for other in self._inside
            if other.state == state and turn_taking.is_same_turn(other, ticket)
        ]

    def record_duration(self, ticket: Ticket) -> None:
        with self._changed:
            self._pace.add(ticket.kind, ticket.size, _computed_s(ticket))

    def count_tickets(self) -> tuple[int, int]:
        """Return how many tickets wait (loading ones included) and how many compute."""
        with self._changed:
            computing = sum(ticket.state == RUNNING for ticket in self._tickets)
            return len(self._tickets) - computing, computing

    @property
    def event_interval_s(self) -> float:
        """Seconds between two progress events of a waiting ticket; grows with the queue."""
        return compute_event_interval(len(self._tickets))

    def wait_for_change(self) -> None:
        """Wait until the queue changes, or for a moment."""
        with self._changed:
            self._changed.wait(max(_POLL_S, len(self._tickets) / _CHECKS_PER_S))

    def _service_order(self) -> list[Ticket]:
        """Return the counted tickets in order of service: admitted ones first, then by turn."""
        came = {id(ticket): number for number, ticket in enumerate(self._tickets)}
        waiting: dict[str, list[Ticket]] = {}
        for ticket in self._tickets:
            if ticket.state == WAITING:
                waiting.setdefault(ticket.visitor.address, []).append(ticket)
        turns = []
        for own in waiting.values():
            # Turns belong to the address; its sessions use them in rotation.
            places = sorted(own, key=lambda ticket: ticket.session_turn)
            turns += zip(sorted(ticket.address_turn for ticket in own), places, strict=True)
        # Of equal turns the earlier arrival goes first.
        turns.sort(key=lambda turn: (turn[0], came[id(turn[1])]))
        return self._inside + [ticket for _, ticket in turns]

    def _admit(self, ticket: Ticket) -> None:
        """Admit a ticket with its address's first turn, swapped with the ticket that has it."""
        own = (o for o in self._tickets if o.visitor.address == ticket.visitor.address)
        first = min((o for o in own if o.state == WAITING), key=lambda other: other.address_turn)
        # The sessions of an address rotate, so this ticket need not have its lowest turn; the two swap.
        turns = first.address_turn, ticket.address_turn
        ticket.address_turn, first.address_turn = turns
        self._inside.append(ticket)

    def _enqueue(self, ticket: Ticket) -> None:
        """Append a ticket with turns after its visitor's own, but not before those now served."""
        counting = [other for other in self._tickets if other.state != RELEASED]
        alike = [o for o in counting if o.visitor.address == ticket.visitor.address]
        own = [o for o in alike if o.visitor == ticket.visitor]
        # Never below the lowest turn that still counts: who stayed away saves up no turns.
        ticket.address_turn = max(
            min((o.address_turn for o in counting), default=0),
            1 + max((o.address_turn for o in alike), default=-1),
        )
        ticket.session_turn = max(
            min((o.session_turn for o in alike), default=0),
            1 + max((o.session_turn for o in own), default=-1),
        )
        ticket.state = WAITING
        self._tickets.append(ticket)

    def _check_address_limit(self, visitor: Visitor) -> None:
        own = sum(other.visitor.address == visitor.address for other in self._tickets)
        if visitor.address and own >= SETTINGS.max_runs_per_address:
            raise BusyError(
                "Your address has {n} runs under way or waiting, as many as one may have "
                "here. Try again when one of them has ended.",
                n=own,
            )

    def _can_load(self, ticket: Ticket) -> bool:
        first = next(other for other in self._service_order() if other.state == WAITING)
        return first is ticket and turn_taking.can_admit(ticket, self._inside)

    def estimate_run(self, kind: Hashable, size: float) -> float | None:
        """Return the expected seconds of a run from recent ones; None before the first."""
        with self._changed:
            return self._pace.estimate(kind, size)

    def _estimate_seconds(self, ahead: list[Ticket], visitor: Visitor) -> float | None:
        """Return the seconds until a visitor's turn after these tickets, None without an estimate."""
        total, longest = 0.0, dict[Hashable, float]()
        for ticket in ahead:
            whole = self._pace.estimate(ticket.kind, ticket.size)
            if whole is None:
                return None
            # An estimate may be too short; a run that exceeds it must not shorten the wait for others.
            left = max(0.0, whole - _computed_s(ticket))
            if len(ahead) <= turn_taking.MAX_PAUSED and ticket.visitor.address != visitor.address:
                left = min(left, turn_taking.TURN_S)  # then it gives way
            if ticket.batch_key is None:
                total += left
            else:  # runs batched together share one turn's time
                longest[ticket.batch_key] = max(left, longest.get(ticket.batch_key, 0.0))
        total += sum(longest.values())
        return round(total / SETTINGS.max_concurrent_runs, 1)


def queue_full_error(waiting: int) -> BusyError:
    """Return (not raise) the error for a run that finds ``waiting`` others in a full queue."""
    wait = "1 run waits" if waiting == 1 else Message("{n} runs wait", n=waiting)
    # No time: everyone who was refused tries for the next place, and their number is unknown.
    return BusyError("The queue is full: {wait} already. Try again later.", wait=wait)


def _computed_s(ticket: Ticket) -> float:
    """Return the seconds for which a ticket has computed so far."""
    now = time.perf_counter() - ticket.since if ticket.state == RUNNING else 0.0
    return ticket.computed_s + now


RUN_QUEUE = RunQueue()


def wait_until_idle(cancelled: threading.Event) -> None:
    """Wait until no ticket waits or computes. The caller holds none, so it delays nobody.

    Args:
        cancelled: gives up waiting when set.

    Raises:
        Cancelled: ``cancelled`` was set.
    """
    while len(RUN_QUEUE):
        if cancelled.is_set():
            raise Cancelled
        RUN_QUEUE.wait_for_change()


@contextmanager
def wait_for_turn(
    cancelled: threading.Event,
    *models: Any,
    tell: EventCallback = ignore_event,
    kind: Hashable = None,
    size: float = 1.0,
) -> Iterator[Ticket]:
    """Wait for a turn for work whose models are loaded, and hold their locks during it.

    It gives way between the layers of its passes.

    Args:
        cancelled: gives up waiting when set.
        models: LoadedModels whose forward passes the work uses; None and repeats are ignored.
        tell: receives Waiting events.
        kind: see ``RunQueue.open_ticket``.
        size: see ``RunQueue.open_ticket``.

    Raises:
        BusyError: the queue is full.
        Cancelled: ``cancelled`` was set while waiting.
    """
    with RUN_QUEUE.open_ticket(cancelled, tell, kind, size) as ticket:
        ticket.wait_to_load()
        with ticket.acquire_turn(*models):
            yield ticket
