"""What the run queue is doing."""

from __future__ import annotations

from engine.run.scheduler import RUN_QUEUE


def queue_states() -> list[int]:
    """Return the states of all tickets, as ``engine.run.turn_taking`` names them."""
    return [place.state for place in RUN_QUEUE._tickets]
