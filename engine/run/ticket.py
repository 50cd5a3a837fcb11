"""A ticket in the run queue: waits for its turns, and gives way between two steps."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import torch

from engine.errors import Cancelled
from engine.model_code import ModelWork
from engine.models.module_state import ModuleState
from engine.run.pass_pauses import pause_between_layers
from engine.run.turn_taking import LOADING, READY, RUNNING, WAITING
from engine.run.visitor import VISITOR
from engine.timing_noise import Work, skip_time
from engine.trace.events import Paused

if TYPE_CHECKING:
    from engine.run.scheduler import RunQueue

EventCallback = Callable[[Any], None]
"""Receives events; pass ``ignore_event`` to discard them."""
_POLL_S = 0.05
_REPEAT_EVENT_S = 1.0


def _do_nothing() -> None:
    """Limit nothing."""


Lift = Callable[[], Callable[[], None]]
"""Ends what a run changes in this process; returns what changes it again."""


def keep_random_state() -> Callable[[], None]:
    """Return what sets torch's global generators back: a lift for work that draws from them."""
    own, gpus = torch.get_rng_state(), None
    if torch.cuda.is_initialized():
        gpus = torch.cuda.get_rng_state_all()

    def restore() -> None:
        torch.set_rng_state(own)
        if gpus is not None:
            torch.cuda.set_rng_state_all(gpus)

    return restore


class Ticket:
    """A ticket in the run queue; see ``RunQueue.open_ticket``.

    Attributes:
        waited_s: seconds it has waited for its turns so far, pauses included.
        computed_s: seconds of its finished turns.
        batch_key: tickets with the same key may compute together. None for an exclusive
            turn.
        rows: number of sequences it decodes.
        keeps_state: whether its models hold something of it between two steps, so that no other
            ticket may use them while it is paused.
        check_state: measures ``keeps_state`` before a pause; by default, whether a pass of this turn
            left something in the modules.
        lift_limits: called at a pause: ends what the run changes in this process, such as the number of
            threads, and returns what changes it again.
        work: counted as other load in timings of other runs while this ticket computes.
    """

    def __init__(
        self,
        queue: RunQueue,
        kind: Hashable,
        size: float,
        cancelled: threading.Event,
        tell: EventCallback,
    ) -> None:
        self.queue, self.kind, self.size = queue, kind, size
        self.batch_key: Hashable = None
        self.rows = 1
        self.cancelled, self.tell = cancelled, tell
        self.visitor = VISITOR.get()
        self.state, self.since, self.turn_since = WAITING, 0.0, 0.0
        self.waited_s = self.computed_s = 0.0
        self.keeps_state = False
        self.check_state: Callable[[], bool] = lambda: False
        self.lift_limits: Lift = lambda: _do_nothing
        self.restore_limits = _do_nothing
        self.models: tuple[Any, ...] = ()
        self.work = Work()
        self.address_turn, self.session_turn = 0, 0

    @property
    def position(self) -> int:
        """Number of tickets ahead, running ones included."""
        return self.queue.describe_wait(self).position

    @contextmanager
    def release_turn(self) -> Iterator[None]:
        """Release the turn during work that needs none; tickets that arrived meanwhile go first."""
        self.queue.release_ticket(self)
        try:
            yield
        finally:
            self.queue.requeue_ticket(self)

    def wait_to_load(self) -> None:
        """Wait until models may be loaded.

        Raises:
            Cancelled: the work was cancelled meanwhile.
        """
        self._wait(LOADING)

    @contextmanager
    def lifting(self, *lifts: Lift) -> Iterator[None]:
        """Lift further changes at pauses until the block ends: the last first, and change it again last."""
        own = self.lift_limits

        def lift() -> Callable[[], None]:
            restores = [one() for one in reversed((own, *lifts))]

            def restore() -> None:
                for one in reversed(restores):
                    one()

            return restore

        self.lift_limits = lift
        try:
            yield
        finally:
            self.lift_limits = own

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
        self.state = READY
        self._wait(RUNNING)
        with ExitStack() as stack:
            # A batch holds its model's lock itself, until its last run ends.
            for model in self.models if self.batch_key is None else ():
                # Code outside the queue may hold the lock too.
                while not model.lock.acquire(timeout=_POLL_S):
                    self._check_cancelled()
                stack.callback(model.lock.release)
                model.forget_passes()
            stack.enter_context(self.work.track())
            stack.enter_context(ModelWork(getattr(next(iter(models), None), "name", "")))
            if self.batch_key is None:
                own = [model.model for model in self.models]
                self.check_state = ModuleState(*own).has_changed
                stack.enter_context(pause_between_layers(*own, give_way=self.give_way))
            yield
        # A cancelled turn would make the estimates too short.
        if not self.cancelled.is_set():
            self.queue.record_duration(self)

    def give_way(
        self,
        paused: Callable[[], AbstractContextManager[None]] = nullcontext,
        tickets: Sequence[Ticket] = (),
    ) -> None:
        """Between two steps, let other addresses compute if they are due; return with the turn.

        Args:
            paused: keeps work in another process from going on meanwhile.
            tickets: tickets whose readers get Paused events; empty for this one alone.
        """
        # Asked between all steps: alone in the queue, a run needs no lock for the answer.
        if len(self.queue) == 1 or not self.queue.pause_turn(self):
            return
        began = time.perf_counter()
        # Released in the pause, so that the runs that are due may use the same model.
        for model in self.models:
            model.lock.release()
        with paused():
            self._wait_paused(tickets or [self])
        for model in self.models:
            model.lock.acquire()
        # A pause must not count against the run's time limit.
        skip_time(time.perf_counter() - began)

    def _wait_paused(self, tickets: Sequence[Ticket]) -> None:
        """Wait until the paused turn may go on, and send Paused events meanwhile."""
        sent_at = -math.inf
        while not self.queue.resume_turn(self):
            if time.perf_counter() - sent_at >= _REPEAT_EVENT_S:
                sent_at = time.perf_counter()
                news = self.queue.describe_wait(self)
                for other in tickets:
                    # A reader who has left is noticed at the next step.
                    with suppress(Cancelled):
                        other.tell(Paused(news.position, news.expected_s))
            self.queue.wait_for_change()

    def _wait(self, state: int) -> None:
        began = time.perf_counter()
        last_position, sent_at = 0, -math.inf
        while not self.queue.try_advance(self, state):
            self._check_cancelled()
            pause = self.queue.event_interval_s
            since = time.perf_counter() - sent_at
            if since >= pause:
                news = self.queue.describe_wait(self)
                if news.position and (news.position != last_position or since >= _REPEAT_EVENT_S):
                    last_position, sent_at = news.position, time.perf_counter()
                    self.tell(news)
            self.queue.wait_for_change()
        self.waited_s += time.perf_counter() - began

    def _check_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise Cancelled
