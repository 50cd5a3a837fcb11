"""A run that came out differently on another replica ends on the page, and another one begins there."""

from __future__ import annotations

import dataclasses
import json

import pytest

from engine import DecodeRequest, decode
from engine.serving import client
from engine.serving.client import RemoteRun
from engine.serving.protocol import ReplicaLost
from engine.trace.events import StepRecorded
from engine.trace.records import Trace
from playground.jobs.registry import JobKind, PageJob
from playground.runs import run_text as writing
from playground.runs import stream as streaming
from playground.runs.run_text import stream_text
from playground.runs.stream import run_state
from tests.helpers.jobs import read_run

REQUEST = DecodeRequest("greedy", "storyteller", "Once", params={"max_new_tokens": 6})


class Replica:
    """Sends some events at once, then it is gone."""

    def __init__(self, events):
        self.batches = [events]

    def next_batch(self, within_s):
        if not self.batches:
            raise ReplicaLost
        return self.batches.pop()

    def close(self):
        pass


@pytest.fixture(autouse=True)
def two_replicas(monkeypatch):
    """A replica that is lost after five events, and one whose steps are others."""
    events = list(decode(REQUEST))
    others = [
        StepRecorded(dataclasses.replace(event.step, entropy=9.0), event.pieces)
        if isinstance(event, StepRecorded)
        else event
        for event in events
    ]

    def remote(request, witness=None):
        replicas = [Replica(others), Replica(events[:5])]
        return RemoteRun(request, lambda *_: replicas.pop())

    monkeypatch.setattr(client, "_RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr(streaming, "decode", remote)
    monkeypatch.setattr(writing, "decode", remote)


def test_the_page_learns_an_end_and_another_beginning():
    told = [json.loads(text) for text in read_run(REQUEST)]
    told = [message for message in told if message["kind"] != "progress"]
    end = next(number for number, message in enumerate(told) if message["kind"] == "fail")
    first, second = told[: end + 1], told[end + 1 :]
    assert told[end]["error"].startswith(
        "The replica of this run was lost. Repeated on another one, the run differed"
    )
    assert [second[0]["kind"], second[-1]["kind"]] == ["start", "finish"]
    for run in (first, second):
        assert [message["seq"] for message in run] == list(range(len(run)))
        assert len({message["run"] for message in run}) == 1
        assert json.loads(run_state(run[0]["run"]))["messages"] == run
    assert told[end]["anew"] == second[0]["run"] != first[0]["run"]
    steps = [step for message in second for step in message.get("steps", ())]
    assert [step["index"] for step in steps] == list(range(6))


def test_a_text_that_is_written_begins_again():
    *_, trace = stream_text(PageJob(JobKind("test")), REQUEST)
    assert isinstance(trace, Trace)
    assert len(trace.steps) == 6
