"""Whoever has fewest runs is served next, and nobody can take all the room there is."""

from __future__ import annotations

import dataclasses

import pytest

from engine import DecodeRequest, LoadedModel
from engine.errors import BusyError
from engine.run import scheduler
from engine.run.scheduler import RUN_QUEUE
from engine.run.visitor import NO_VISITOR, Visitor
from engine.trace.events import Finished, Waiting
from tests.helpers.gates import gate
from tests.helpers.models import fresh_model
from tests.helpers.patience import PATIENCE_S
from tests.helpers.runs import decode_as

GREEDY, OTHER_PAGE = Visitor("192.0.2.1", "one"), Visitor("192.0.2.1", "two")
SECOND, THIRD = Visitor("192.0.2.2", "a"), Visitor("192.0.2.3", "a")


def asked_by(visitor, loaded):
    """Begin a run in somebody's name."""
    request = DecodeRequest("greedy", loaded, input_ids=[5, 9], params={"max_new_tokens": 2})
    return decode_as(visitor, request)


@pytest.fixture
def held():
    """Return the gate at which a run of nobody in particular has the permit."""
    loaded = LoadedModel(fresh_model("llama"))
    with gate(loaded.model, free=0) as gated:
        run = asked_by(NO_VISITOR, loaded)
        gated.wait()
        yield gated
    assert run.join(PATIENCE_S)


def test_who_has_fewest_places_is_served_next(held, monkeypatch):
    # Who may load next is decided by turn; of two that have loaded, the first to be ready computes.
    admit, admitted = RUN_QUEUE._admit, []
    monkeypatch.setattr(
        RUN_QUEUE, "_admit", lambda ticket: admitted.append(ticket) or admit(ticket)
    )
    runs, tickets, places = [], [], []
    for visitor in (GREEDY, GREEDY, GREEDY, OTHER_PAGE, SECOND, THIRD, SECOND):
        runs.append(asked_by(visitor, LoadedModel(fresh_model("gpt2"))))
        told = next(runs[-1])
        assert isinstance(told, Waiting), told
        places.append(told.position)
        tickets.append(RUN_QUEUE._tickets[-1])
    # One before all is at work. The three of one page, its neighbour's and then the others': each
    # address's first, each one's second, and at the crowded address the pages take turns.
    assert places == [1, 2, 3, 2, 2, 3, 5]
    held.open()
    for run in runs:
        *_, last = run
        assert isinstance(last, Finished)
    served = [tickets.index(ticket) for ticket in admitted]
    assert served == [0, 4, 5, 3, 6, 1, 2], served


def test_an_address_gets_its_share_and_another_still_has_room(held, monkeypatch):
    few = dataclasses.replace(scheduler.SETTINGS, max_runs_per_address=2)
    monkeypatch.setattr(scheduler, "SETTINGS", few)
    runs = [asked_by(GREEDY, LoadedModel(fresh_model("gpt2"))) for _ in range(2)]
    for run in runs:
        assert isinstance(next(run), Waiting)
    (failed,) = asked_by(OTHER_PAGE, LoadedModel(fresh_model("gpt2")))
    assert isinstance(failed.error, BusyError)
    assert str(failed.error) == (
        "Your address has 2 runs under way or waiting, as many as one may have here."
        " Try again when one of them has ended."
    )
    for visitor in (SECOND, NO_VISITOR, NO_VISITOR, NO_VISITOR):
        runs.append(asked_by(visitor, LoadedModel(fresh_model("gpt2"))))
        assert isinstance(next(runs[-1]), Waiting)
    for run in runs:
        run.close()
        assert run.join(PATIENCE_S)
    assert len(RUN_QUEUE._tickets) == 1
    again = asked_by(GREEDY, LoadedModel(fresh_model("gpt2")))
    assert isinstance(next(again), Waiting)
    again.close()
    assert again.join(PATIENCE_S)
