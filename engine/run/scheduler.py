"""Schedules all work that computes: one queue, fair between visitors, first come first served.

The visitor with the fewest turns is served next. An address shares its turns among its sessions
(start-time fair queueing, Goyal et al. 1996, with turns as lengths). A ticket is taken before
anything is loaded. One more ticket than may compute can load its models, so a slow load does not
delay others and memory stays bounded. Among the ready tickets the earliest computes. The worker
that took a ticket always releases it.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from engine.errors import BusyError, Cancelled
from engine.messages import Message
from engine.run.duration_estimator import DurationEstimator
from engine.run.visitor import VISITOR, Visitor
from engine.settings import SETTINGS
from engine.timing_noise import track_work
from engine.trace.events import Event, Waiting

EventCallback = Callable[[Any], None]
"""Receives events; pass ``ignore_event`` to discard them."""
_POLL_S = 0.05
_REPEAT_EVENT_S = 1.0
_EVENTS_PER_S = 25
"""Progress events a second for all waiting tickets together: each one costs the running run."""
_CHECKS_PER_S = 500
"""Polls a second of all waiting tickets together; a change of the queue wakes them anyway."""
_RELEASED, _WAITING, _LOADING, _READY, _RUNNING = range(5)


def ignore_event(event: Event) -> None:
    """Discard an event."""
    del event


class Ticket:
    """A ticket in the run queue; see ``RunQueue.open_ticket``.

    Attributes:
        waited_s: seconds it has waited for its turns so far.
        company: batch key; tickets with the same key may compute together. None for an exclusive
            turn.
        rows: number of sequences it decodes.
    """

    def __init__(
        self,
        line: RunQueue,
        kind: Hashable,
        size: float,
        cancelled: threading.Event,
        tell: EventCallback,
    ) -> None:
        self.line, self.kind, self.size = line, kind, size
        self.company: Hashable = None
        self.rows = 1
        self.cancelled, self.tell = cancelled, tell
        self.visitor = VISITOR.get()
        self.state, self.since, self.waited_s = _WAITING, 0.0, 0.0
        self.models: tuple[Any, ...] = ()
        self.address_turn, self.session_turn = 0, 0

    @property
    def position(self) -> int:
        """Number of tickets ahead, running ones included."""
        return self.line.describe_wait(self).position

    @contextmanager
    def release_turn(self) -> Iterator[None]:
        """Release the turn during work that needs none; tickets that arrived meanwhile go first."""
        self.line.release_ticket(self)
        try:
            yield
        finally:
            self.line.requeue_ticket(self)

    def wait_to_load(self) -> None:
        """Wait until models may be loaded.

        Raises:
            Cancelled: the work was cancelled meanwhile.
        """
        self._wait(_LOADING)

    @contextmanager
    def acquire_turn(self, *models: Any) -> Iterator[None]:
        """Wait until this ticket may compute, then hold the lock of every model.

        Args:
            models: LoadedModels whose forward passes are used; None and repeats are ignored.

        Raises:
            Cancelled: the work was cancelled meanwhile.
        """
        unique = {id(model): model for model in models if model is not None}
        # A fixed order of acquisition, so that two runs cannot wait for each other.
        self.models = tuple(sorted(unique.values(), key=lambda model: model.order))
        self.state = _READY
        self._wait(_RUNNING)
        with ExitStack() as held:
            # A batch holds its model's lock itself, until its last run ends.
            for model in self.models if self.company is None else ():
                # Code outside the queue may hold the lock too.
                while not model.lock.acquire(timeout=_POLL_S):
                    self._check_cancelled()
                held.callback(model.lock.release)
            held.enter_context(track_work())
            yield
        # A cancelled turn would make the estimates too short.
        if not self.cancelled.is_set():
            self.line.record_duration(self)

    def _wait(self, state: int) -> None:
        began = time.perf_counter()
        told, told_at = 0, -math.inf
        while not self.line.try_advance(self, state):
            self._check_cancelled()
            pause = self.line.event_interval_s
            since = time.perf_counter() - told_at
            if since >= pause:
                news = self.line.describe_wait(self)
                if news.position and (news.position != told or since >= _REPEAT_EVENT_S):
                    told, told_at = news.position, time.perf_counter()
                    self.tell(news)
            self.line.wait_for_change()
        self.waited_s += time.perf_counter() - began

    def _check_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled


def compute_event_interval(places: int) -> float:
    """Return the seconds between two progress events of one ticket in a queue of this length."""
    return places / _EVENTS_PER_S


class RunQueue:
    """The queue of all tickets of this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._places: list[Ticket] = []
        # Tickets that may load or compute, in order of admission.
        self._inside: list[Ticket] = []
        self._pace = DurationEstimator()

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
        place = Ticket(self, kind, size, cancelled, tell)
        with self._changed:
            waiting = len(self._places) - SETTINGS.max_concurrent_runs
            if waiting >= SETTINGS.max_waiting_runs:
                raise queue_full_error(waiting)
            self._check_address_limit(place.visitor)
            self._enqueue(place)
        try:
            yield place
        finally:
            with self._changed:
                self._places.remove(place)
                if place in self._inside:
                    self._inside.remove(place)
                self._changed.notify_all()

    def describe_wait(self, place: Ticket) -> Waiting:
        """Return the number of tickets ahead of one, and their expected seconds."""
        with self._changed:
            served = self._service_order()
            ahead = served[: served.index(place)]
            return Waiting(len(ahead), self._estimate_seconds(ahead))

    def release_ticket(self, place: Ticket) -> None:
        """Stop counting a ticket; it still occupies its place in the queue limit."""
        with self._changed:
            place.state = _RELEASED
            self._changed.notify_all()

    def requeue_ticket(self, place: Ticket) -> None:
        """Count a released ticket again, as the newest arrival."""
        with self._changed:
            self._places.remove(place)
            self._enqueue(place)
            self._changed.notify_all()

    def try_advance(self, place: Ticket, state: int) -> bool:
        """Move a ticket to a state if it is its turn; return whether it was."""
        with self._changed:
            allowed = self._can_load(place) if state == _LOADING else self._can_run(place)
            if allowed:
                if state == _LOADING:
                    self._admit(place)
                place.state, place.since = state, time.perf_counter()
                self._changed.notify_all()
            return allowed

    def record_duration(self, place: Ticket) -> None:
        with self._changed:
            self._pace.add(place.kind, place.size, time.perf_counter() - place.since)

    def count_tickets(self) -> tuple[int, int]:
        """Return how many tickets wait (loading ones included) and how many compute."""
        with self._changed:
            computing = sum(place.state == _RUNNING for place in self._places)
            return len(self._places) - computing, computing

    @property
    def event_interval_s(self) -> float:
        """Seconds between two progress events of a waiting ticket; grows with the queue."""
        return compute_event_interval(len(self._places))

    def wait_for_change(self) -> None:
        """Wait until the queue changes, or for a moment."""
        with self._changed:
            self._changed.wait(max(_POLL_S, len(self._places) / _CHECKS_PER_S))

    def _service_order(self) -> list[Ticket]:
        """Return the counted tickets in order of service: admitted ones first, then by turn."""
        came = {id(place): number for number, place in enumerate(self._places)}
        waiting: dict[str, list[Ticket]] = {}
        for place in self._places:
            if place.state == _WAITING:
                waiting.setdefault(place.visitor.address, []).append(place)
        turns = []
        for own in waiting.values():
            # Turns belong to the address; its sessions use them in rotation.
            places = sorted(own, key=lambda place: place.session_turn)
            turns += zip(sorted(place.address_turn for place in own), places, strict=True)
        turns.sort(key=lambda turn: (turn[0], came[id(turn[1])]))
        return self._inside + [place for _, place in turns]

    def _admit(self, place: Ticket) -> None:
        """Admit a ticket with its address's first turn, swapped with the ticket that has it."""
        own = (o for o in self._places if o.visitor.address == place.visitor.address)
        first = min((o for o in own if o.state == _WAITING), key=lambda other: other.address_turn)
        turns = first.address_turn, place.address_turn
        place.address_turn, first.address_turn = turns
        self._inside.append(place)

    def _enqueue(self, place: Ticket) -> None:
        """Append a ticket with turns after its visitor's own, but not before those now served."""
        counting = [other for other in self._places if other.state != _RELEASED]
        alike = [o for o in counting if o.visitor.address == place.visitor.address]
        own = [o for o in alike if o.visitor == place.visitor]
        place.address_turn = max(
            min((o.address_turn for o in counting), default=0),
            1 + max((o.address_turn for o in alike), default=-1),
        )
        place.session_turn = max(
            min((o.session_turn for o in alike), default=0),
            1 + max((o.session_turn for o in own), default=-1),
        )
        place.state = _WAITING
        self._places.append(place)

    def _check_address_limit(self, visitor: Visitor) -> None:
        own = sum(other.visitor.address == visitor.address for other in self._places)
        if visitor.address and own >= SETTINGS.max_runs_per_address:
            raise BusyError(
                "Your address has {n} runs under way or waiting, as many as one may have "
                "here. Try again when one of them has ended.",
                n=own,
            )

    def _can_load(self, place: Ticket) -> bool:
        first = next(other for other in self._service_order() if other.state == _WAITING)
        # One more than may compute: a slow load delays nobody, and waiting models do not fill memory.
        turns = _count_turns([*self._inside, place])
        return first is place and turns <= SETTINGS.max_concurrent_runs + 1

    def _can_run(self, place: Ticket) -> bool:
        """Return whether a ticket may compute: of all that need one model, the first goes ahead."""
        running = [other for other in self._inside if other.state == _RUNNING]
        busy = {id(model) for other in running for model in other.models}
        wanted: set[int] = set()
        for other in self._inside:
            if other.state != _READY:
                continue
            own = {id(model) for model in other.models}
            turns = _count_turns([*running, other])
            joins = other.company is not None and turns == _count_turns(running)
            free = turns <= SETTINGS.max_concurrent_runs
            turn = not own & wanted and (joins or (free and not own & busy))
            if other is place:
                return turn
            if turn:
                running.append(other)
                busy |= own
            else:
                # A later ticket must not overtake one that waits for the same model.
                wanted |= own
        return False

    def _estimate_seconds(self, ahead: list[Ticket]) -> float | None:
        """Return the seconds that tickets still need, None without an estimate."""
        total, longest = 0.0, dict[Hashable, float]()
        for place in ahead:
            whole = self._pace.estimate(place.kind, place.size)
            if whole is None:
                return None
            gone = time.perf_counter() - place.since if place.state == _RUNNING else 0.0
            left = max(0.0, whole - gone)
            if place.company is None:
                total += left
            else:  # runs batched together share one turn's time
                longest[place.company] = max(left, longest.get(place.company, 0.0))
        total += sum(longest.values())
        return round(total / SETTINGS.max_concurrent_runs, 1)


def queue_full_error(waiting: int) -> BusyError:
    """Return (not raise) the error for a run that finds ``waiting`` others in a full queue."""
    wait = "1 run waits" if waiting == 1 else Message("{n} runs wait", n=waiting)
    # No time: everyone who was refused tries for the next place, and their number is unknown.
    return BusyError("The queue is full: {wait} already. Try again later.", wait=wait)


def _count_turns(places: Iterable[Ticket]) -> int:
    """Count the compute slots in use; batched runs share one slot up to max_shared_runs rows."""
    turns, rows = 0, dict[Hashable, int]()
    for place in places:
        beside = None if place.company is None else rows.get(place.company)
        if beside is None or beside + place.rows > SETTINGS.max_shared_runs:
            turns += 1
            beside = 0
        rows[place.company] = beside + place.rows
    return turns


RUN_QUEUE = RunQueue()


@contextmanager
def wait_for_turn(
    cancelled: threading.Event,
    *models: Any,
    tell: EventCallback = ignore_event,
    kind: Hashable = None,
    size: float = 1.0,
) -> Iterator[None]:
    """Wait for a turn for work whose models are loaded, and hold their locks during it.

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
    with RUN_QUEUE.open_ticket(cancelled, tell, kind, size) as place:
        place.wait_to_load()
        with place.acquire_turn(*models):
            yield
