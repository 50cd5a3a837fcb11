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
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from statistics import median
from typing import Any

from engine.errors import BusyError, Cancelled
from engine.run.visitor import VISITOR, Visitor
from engine.settings import SETTINGS
from engine.timing_noise import working
from engine.trace.events import Waiting

Tell = Callable[[Any], None]
"""Receives events; pass ``nobody`` to discard them."""
_POLL_S = 0.05
_AGAIN_S = 1.0
_TELLS_PER_S = 25
"""Progress events a second for all waiting tickets together: each one costs the running run."""
_LOOKS_PER_S = 500
"""Polls a second of all waiting tickets together; a change of the queue wakes them anyway."""
_RECENT = 32
_AWAY, _WAITS, _LOADS, _READY, _RUNS = range(5)


def nobody(event: Any) -> None:
    """Discard an event."""
    del event


class Pace:
    """Estimates durations from recent work of the same kind."""

    def __init__(self) -> None:
        self._taken: deque[tuple[Hashable, float, float]] = deque(maxlen=_RECENT)

    def add(self, kind: Hashable, size: float, seconds: float) -> None:
        self._taken.append((kind, size, seconds))

    def of(self, kind: Hashable, size: float) -> float | None:
        """Return the expected seconds from recent work, of this kind if any; None without any."""
        own = [seconds / amount for known, amount, seconds in self._taken if known == kind]
        if own:
            return median(own) * size
        return median(seconds for *_, seconds in self._taken) if self._taken else None


class LinePlace:
    """A ticket in the run queue; see ``RunLine.place``.

    Attributes:
        waited_s: seconds it has waited for its turns so far.
        company: batch key; tickets with the same key may compute together. None for an exclusive
            turn.
        rows: number of sequences it decodes.
    """

    def __init__(
        self, line: RunLine, kind: Hashable, size: float, cancelled: threading.Event, tell: Tell
    ) -> None:
        self.line, self.kind, self.size = line, kind, size
        self.company: Hashable = None
        self.rows = 1
        self.cancelled, self.tell = cancelled, tell
        self.visitor = VISITOR.get()
        self.state, self.since, self.waited_s = _WAITS, 0.0, 0.0
        self.models: tuple[Any, ...] = ()
        self.address_turn, self.session_turn = 0, 0

    @property
    def position(self) -> int:
        """Number of tickets ahead, running ones included."""
        return self.line.before(self).position

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Release the turn during work that needs none; tickets that arrived meanwhile go first."""
        self.line.step_aside(self)
        try:
            yield
        finally:
            self.line.come_back(self)

    def enter(self) -> None:
        """Wait until models may be loaded.

        Raises:
            Cancelled: the work was cancelled meanwhile.
        """
        self._wait(_LOADS)

    @contextmanager
    def turn(self, *models: Any) -> Iterator[None]:
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
        self._wait(_RUNS)
        with ExitStack() as held:
            # A batch holds its model's lock itself, until its last run ends.
            for model in self.models if self.company is None else ():
                # Code outside the queue may hold the lock too.
                while not model.lock.acquire(timeout=_POLL_S):
                    self._look()
                held.callback(model.lock.release)
            held.enter_context(working())
            yield
        # A cancelled turn would make the estimates too short.
        if not self.cancelled.is_set():
            self.line.took(self)

    def _wait(self, state: int) -> None:
        began = time.perf_counter()
        told, told_at = 0, -math.inf
        while not self.line.advance(self, state):
            self._look()
            pause = self.line.pause_s
            since = time.perf_counter() - told_at
            if since >= pause:
                news = self.line.before(self)
                if news.position and (news.position != told or since >= _AGAIN_S):
                    told, told_at = news.position, time.perf_counter()
                    self.tell(news)
            self.line.rest()
        self.waited_s += time.perf_counter() - began

    def _look(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled


def pause_of(places: int) -> float:
    """Return the seconds between two progress events of one ticket in a queue of this length."""
    return places / _TELLS_PER_S


class RunLine:
    """The queue of all tickets of this process."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._places: list[LinePlace] = []
        # Tickets that may load or compute, in order of admission.
        self._inside: list[LinePlace] = []
        self._pace = Pace()

    @contextmanager
    def place(
        self,
        cancelled: threading.Event,
        tell: Tell = nobody,
        kind: Hashable = None,
        size: float = 1.0,
    ) -> Iterator[LinePlace]:
        """Yield a new ticket at its fair position; it is removed at the end.

        Args:
            cancelled: leaves the queue when set.
            tell: receives Waiting events; an exception from it ends the wait.
            kind: work of one kind takes time in proportion to its size.
            size: amount of work.

        Raises:
            BusyError: the queue is full, or this visitor's address has reached its limit.
        """
        place = LinePlace(self, kind, size, cancelled, tell)
        with self._changed:
            waiting = len(self._places) - SETTINGS.max_concurrent_runs
            if waiting >= SETTINGS.max_waiting_runs:
                raise BusyError(self._full(waiting))
            self._share(place.visitor)
            self._queue(place)
        try:
            yield place
        finally:
            with self._changed:
                self._places.remove(place)
                if place in self._inside:
                    self._inside.remove(place)
                self._changed.notify_all()

    def before(self, place: LinePlace) -> Waiting:
        """Return the number of tickets ahead of one, and their expected seconds."""
        with self._changed:
            served = self._served()
            ahead = served[: served.index(place)]
            return Waiting(len(ahead), self._seconds(ahead))

    def step_aside(self, place: LinePlace) -> None:
        """Stop counting a ticket; it still occupies its place in the queue limit."""
        with self._changed:
            place.state = _AWAY
            self._changed.notify_all()

    def come_back(self, place: LinePlace) -> None:
        """Count a released ticket again, as the newest arrival."""
        with self._changed:
            self._places.remove(place)
            self._queue(place)
            self._changed.notify_all()

    def advance(self, place: LinePlace, state: int) -> bool:
        """Move a ticket to a state if it is its turn; return whether it was."""
        with self._changed:
            allowed = self._may_load(place) if state == _LOADS else self._may_run(place)
            if allowed:
                if state == _LOADS:
                    self._let_in(place)
                place.state, place.since = state, time.perf_counter()
                self._changed.notify_all()
            return allowed

    def took(self, place: LinePlace) -> None:
        with self._changed:
            self._pace.add(place.kind, place.size, time.perf_counter() - place.since)

    def busy(self) -> tuple[int, int]:
        """Return how many tickets wait (loading ones included) and how many compute."""
        with self._changed:
            computing = sum(place.state == _RUNS for place in self._places)
            return len(self._places) - computing, computing

    @property
    def pause_s(self) -> float:
        """Seconds between two progress events of a waiting ticket; grows with the queue."""
        return pause_of(len(self._places))

    def rest(self) -> None:
        """Wait until the queue changes, or for a moment."""
        with self._changed:
            self._changed.wait(max(_POLL_S, len(self._places) / _LOOKS_PER_S))

    def _served(self) -> list[LinePlace]:
        """Return the counted tickets in order of service: admitted ones first, then by turn."""
        came = {id(place): number for number, place in enumerate(self._places)}
        waiting: dict[str, list[LinePlace]] = {}
        for place in self._places:
            if place.state == _WAITS:
                waiting.setdefault(place.visitor.address, []).append(place)
        turns = []
        for own in waiting.values():
            # Turns belong to the address; its sessions use them in rotation.
            places = sorted(own, key=lambda place: place.session_turn)
            turns += zip(sorted(place.address_turn for place in own), places, strict=True)
        turns.sort(key=lambda turn: (turn[0], came[id(turn[1])]))
        return self._inside + [place for _, place in turns]

    def _let_in(self, place: LinePlace) -> None:
        """Admit a ticket with its address's first turn, swapped with the ticket that has it."""
        own = (o for o in self._places if o.visitor.address == place.visitor.address)
        first = min((o for o in own if o.state == _WAITS), key=lambda other: other.address_turn)
        turns = first.address_turn, place.address_turn
        place.address_turn, first.address_turn = turns
        self._inside.append(place)

    def _queue(self, place: LinePlace) -> None:
        """Append a ticket with turns after its visitor's own, but not before those now served."""
        counting = [other for other in self._places if other.state != _AWAY]
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
        place.state = _WAITS
        self._places.append(place)

    def _share(self, visitor: Visitor) -> None:
        own = sum(other.visitor.address == visitor.address for other in self._places)
        if visitor.address and own >= SETTINGS.max_runs_per_address:
            raise BusyError(
                f"Your address has {own} runs under way or waiting, as many as one may have here."
                " Try again when one of them has ended."
            )

    def _may_load(self, place: LinePlace) -> bool:
        first = next(other for other in self._served() if other.state == _WAITS)
        # One more than may compute: a slow load delays nobody, and waiting models do not fill
        # memory.
        return first is place and _turns([*self._inside, place]) <= SETTINGS.max_concurrent_runs + 1

    def _may_run(self, place: LinePlace) -> bool:
        """Return whether a ticket may compute: of all that need one model, the first goes ahead."""
        running = [other for other in self._inside if other.state == _RUNS]
        busy = {id(model) for other in running for model in other.models}
        wanted: set[int] = set()
        for other in self._inside:
            if other.state != _READY:
                continue
            own = {id(model) for model in other.models}
            joins = other.company is not None and _turns([*running, other]) == _turns(running)
            free = _turns([*running, other]) <= SETTINGS.max_concurrent_runs
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

    def _seconds(self, ahead: list[LinePlace]) -> float | None:
        """Return the seconds that tickets still need, None without an estimate."""
        total, longest = 0.0, dict[Hashable, float]()
        for place in ahead:
            whole = self._pace.of(place.kind, place.size)
            if whole is None:
                return None
            gone = time.perf_counter() - place.since if place.state == _RUNS else 0.0
            left = max(0.0, whole - gone)
            if place.company is None:
                total += left
            else:  # runs batched together share one turn's time
                longest[place.company] = max(left, longest.get(place.company, 0.0))
        total += sum(longest.values())
        return round(total / SETTINGS.max_concurrent_runs, 1)

    def _full(self, waiting: int) -> str:
        wait = "1 run waits" if waiting == 1 else f"{waiting} runs wait"
        at_work = [p for p in self._places if p.state == _RUNS] or self._places[:1]
        left = [self._seconds([place]) for place in at_work]
        known = [seconds for seconds in left if seconds is not None]
        when = f"about {max(1, round(min(known)))} s" if known else "a moment"
        return f"The queue is full: {wait} already. Try again in {when}."


def _turns(places: Iterable[LinePlace]) -> int:
    """Count the compute slots in use; batched runs share one slot up to max_shared_runs rows."""
    turns, rows = 0, dict[Hashable, int]()
    for place in places:
        beside = None if place.company is None else rows.get(place.company)
        if beside is None or beside + place.rows > SETTINGS.max_shared_runs:
            turns += 1
            beside = 0
        rows[place.company] = beside + place.rows
    return turns


LINE = RunLine()


@contextmanager
def running(
    cancelled: threading.Event,
    *models: Any,
    tell: Tell = nobody,
    kind: Hashable = None,
    size: float = 1.0,
) -> Iterator[None]:
    """Wait for a turn for work whose models are loaded, and hold their locks during it.

    Args:
        cancelled: gives up waiting when set.
        models: LoadedModels whose forward passes the work uses; None and repeats are ignored.
        tell: receives Waiting events.
        kind: see ``RunLine.place``.
        size: see ``RunLine.place``.

    Raises:
        BusyError: the queue is full.
        Cancelled: ``cancelled`` was set while waiting.
    """
    with LINE.place(cancelled, tell, kind, size) as place:
        place.enter()
        with place.turn(*models):
            yield
