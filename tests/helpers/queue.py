"""What the run queue is doing."""

from __future__ import annotations

from engine.run.scheduler import RUN_QUEUE
from engine.run.visitor import Visitor
from tests.helpers.patience import comes_true


def queue_states(visitor: Visitor | None = None) -> list[int]:
    """Return the states of all tickets, or of a visitor's, as ``engine.run.turn_taking`` names them."""
    tickets = tuple(RUN_QUEUE._tickets)
    return [t.state for t in tickets if visitor is None or t.visitor.address == visitor.address]


def wait_for_all_runs() -> None:
    """Wait until every run of this process has ended and left the queue."""
    comes_true(lambda: not RUN_QUEUE._tickets)
