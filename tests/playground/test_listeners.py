"""Answer streams: every listener gets all of it, and one that reads nothing is given up."""

from __future__ import annotations

import dataclasses
import re
import socket

import pytest

from engine.models.loading import load
from engine.settings import SETTINGS
from playground.server import idle_timeout
from tests.helpers.events import events_of
from tests.helpers.gates import gate_between_runs
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.served import SERVED_HERE

pytestmark = SERVED_HERE
GREEDY = {"strategy": "greedy", "prompt": "Once", "model": "storyteller", "seed": 0}


@pytest.fixture
def held():
    with gate_between_runs(load("storyteller").model) as gated:
        yield gated


def ask(client, session, **params):
    """Start a run of the page and leave its answer unfetched."""
    asked = {**GREEDY, "press": session, "params": params}
    number = events_of(client.get("/config").json())["greedy"]
    sent = {"fn_index": number, "data": [], "event_data": asked, "session_hash": session}
    answer = client.post("/gradio_api/queue/join", json=sent)
    assert answer.status_code == 200, answer.text


def test_an_answer_that_nobody_reads_is_ended(open_server, monkeypatch):
    client, demo = open_server
    (script,) = set(re.findall(r"scripts/[0-9a-f]{16}/plotly\.js", client.get("/").text))
    open_lines = demo.server.server_state.connections
    before = set(open_lines)
    monkeypatch.setattr(idle_timeout, "SETTINGS", dataclasses.replace(SETTINGS, max_body_s=0.05))
    port = int(client.url.rpartition(":")[2])
    with socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(PATIENCE_S)
        line.connect(("127.0.0.1", port))
        # More than the system's buffers take.
        line.sendall(f"GET /{script} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode() * 4)
        comes_true(lambda: set(open_lines) - before)
        comes_true(lambda: not set(open_lines) - before)
    assert client.get("/here").status_code == 204


def _read_stream(client, session):
    """Open a session's stream and return a function that reads it to its end."""
    path = f"/gradio_api/queue/data?session_hash={session}"
    stream = client.http.stream("GET", path)
    lines = stream.__enter__().iter_lines()
    # Sent when the run begins; until it has come, the stream may not be open yet.
    found = [next(lines)]

    def read():
        found.extend(lines)
        stream.__exit__(None, None, None)
        return [line for line in found if line and "heartbeat" not in line]

    return read


def test_every_listener_of_a_session_gets_all_of_its_messages(open_server, held):
    client, _ = open_server
    ask(client, "shared", max_new_tokens=5)
    other, own = _read_stream(client, "shared"), _read_stream(client, "shared")
    held.open()
    said = own()
    assert "process_completed" in "".join(said)
    assert other() == said


def test_a_session_has_a_bounded_number_of_listeners(open_server, held):
    client, _ = open_server
    ask(client, "many", max_new_tokens=2)
    readers = [_read_stream(client, "many") for _ in range(8)]
    ninth = client.get("/gradio_api/queue/data?session_hash=many")
    assert (ninth.status_code, ninth.text) == (409, "Others read this session's answers already.")
    held.open()
    assert len({tuple(read()) for read in readers}) == 1
