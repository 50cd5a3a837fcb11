"""Decides which tickets compute: turns of different addresses take turns, so no run waits for a long one.

A turn is one exclusive ticket, or a batch. When it has lasted ``TURN_S`` seconds and another address
could compute instead, it pauses between two steps and goes to the end of the order (round robin).
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from engine.settings import SETTINGS

if TYPE_CHECKING:
    from engine.run.ticket import Ticket

RELEASED, WAITING, LOADING, READY, RUNNING, PAUSED = range(6)
TURN_S = 1.0
"""Seconds that a turn lasts at least, if another address waits."""
MAX_PAUSED = 2
"""Most turns that are paused at one time: each keeps its models and its cache in memory."""


def find_starting(inside: Sequence[Ticket], pausing: Sequence[Ticket] = ()) -> list[Ticket]:
    """Return the tickets that may start or resume now, in order.

    Of all that need one model, the first goes ahead.

    Args:
        inside: tickets that may load or compute, in order.
        pausing: tickets to treat as if they had just paused.
    """
    running = [o for o in inside if o.state == RUNNING and o not in pausing]
    paused = [o for o in inside if o.state == PAUSED or o in pausing]
    # Then only paused turns go on: a new one would add its cache to those that wait in memory.
    crowded = count_turns(paused) > MAX_PAUSED
    busy = {id(model) for other in running for model in other.models}
    starting: list[Ticket] = []
    reserved: set[int] = set()
    for turn in _candidates(inside, pausing):
        first, own = turn[0], {id(model) for other in turn for model in other.models}
        # Modules that hold something of a paused turn may not compute for others until it goes on.
        paused_models = {id(m) for o in paused if o.keeps_state and o not in turn for m in o.models}
        new = first not in paused
        if own & paused_models or (new and (crowded or _can_join(first, paused))):
            continue
        turns = count_turns([*running, *turn])
        # It fits into the rows of a batch that runs already: it takes no slot, and may use the busy model.
        joins = first.batch_key is not None and turns == count_turns(running)
        free = turns <= SETTINGS.max_concurrent_runs
        if not own & reserved and (joins or (free and not own & busy)):
            running += turn
            starting += turn
            busy |= own
        else:
            # A later ticket must not overtake one that waits for the same model.
            reserved |= own
    return starting


def _can_join(ticket: Ticket, paused: Sequence[Ticket]) -> bool:
    """Return whether a new ticket fits into its paused batch, whose turn it waits for."""
    batch = [other for other in paused if is_same_turn(other, ticket)]
    return bool(batch) and count_turns([*batch, ticket]) == 1


def _candidates(inside: Sequence[Ticket], pausing: Sequence[Ticket]) -> Iterator[list[Ticket]]:
    """Yield the turns that wait to compute: each READY ticket, and the tickets of each paused turn."""
    order = [*(o for o in inside if o not in pausing), *pausing]
    begun = {o.visitor.address for o in order if o.state in (RUNNING, PAUSED)}

    def rank(ticket: Ticket) -> int:
        # In this order: visitors who wait for a stopped text, those of whom nothing has begun yet, and
        # further runs of an address that computes already.
        if ticket.state == PAUSED and ticket.cancelled.is_set():
            return 0  # the visitor waits for the text so far
        return 1 if ticket.state != READY or ticket.visitor.address not in begun else 2

    in_turns: list[Ticket] = []
    for first in sorted(order, key=rank):
        if first.state == READY:
            yield [first]
        elif (first.state == PAUSED or first in pausing) and first not in in_turns:
            turn = [o for o in order if is_same_turn(o, first) and o.state != READY]
            in_turns += turn
            yield turn


def find_due(turn: Sequence[Ticket], inside: Sequence[Ticket]) -> list[Ticket]:
    """Return the tickets that a running turn must let go first, empty if it goes on.

    Args:
        turn: the tickets of the turn; it has just finished a step.
        inside: tickets that may load or compute, in order.
    """
    over = time.perf_counter() - turn[0].turn_since >= TURN_S
    stopped = [o for o in inside if o.state == PAUSED and o.cancelled.is_set()]
    if not over and not stopped:
        return []
    # What could start anyway needs no pause, so the two answers are compared.
    without = find_starting(inside)
    addresses = {other.visitor.address for other in turn}
    return [
        other
        for other in find_starting(inside, turn)
        if other not in turn
        and other not in without
        and (other in stopped or (over and addresses - {other.visitor.address}))
    ]


def is_same_turn(one: Ticket, other: Ticket) -> bool:
    """Return whether two tickets compute together."""
    return one is other or (one.batch_key is not None and one.batch_key == other.batch_key)


def can_admit(ticket: Ticket, inside: Sequence[Ticket]) -> bool:
    """Return whether a ticket may load its models.

    One more than may compute: a slow load delays nobody, and waiting models do not fill memory.
    """
    active = [other for other in inside if other.state != PAUSED]
    most = SETTINGS.max_concurrent_runs + 1
    begun = {other.visitor.address for other in inside if other.state in (RUNNING, PAUSED)}
    waiting = {other.visitor.address for other in inside if other.state in (LOADING, READY)}
    # The next run of a visitor who computes already must not keep others from their first.
    most += waiting <= begun and ticket.visitor.address not in begun | waiting
    return count_turns([*active, ticket]) <= most


def count_turns(tickets: Iterable[Ticket]) -> int:
    """Count the compute slots in use; batched runs share one slot up to max_shared_runs rows."""
    turns, rows = 0, dict[Hashable, int]()
    for ticket in tickets:
        rows_so_far = None if ticket.batch_key is None else rows.get(ticket.batch_key)
        if rows_so_far is None or rows_so_far + ticket.rows > SETTINGS.max_shared_runs:
            turns += 1
            rows_so_far = 0
        rows[ticket.batch_key] = rows_so_far + ticket.rows
    return turns
