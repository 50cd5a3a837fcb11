"""What one visitor does reaches no other: sessions, lanes, listeners, origins, uploads, addresses."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import time

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from engine.models.loading import load
from engine.run import permits
from engine.run.permits import LINE
from engine.settings import SETTINGS
from playground import api, going, web
from playground.listening import Listeners
from playground.uploads import Uploads
from playground.visitors import address_of
from tests.helpers.client import Client
from tests.helpers.events import events_of
from tests.helpers.gates import gate
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.served import SERVED_HERE, served

pytestmark = SERVED_HERE
GREEDY = {"strategy": "greedy", "prompt": "Once", "model": "storyteller", "seed": 0, "params": {}}


@pytest.fixture(scope="module")
def open_server():
    """Return a client of a server in this process, and Gradio's app."""
    with served() as (url, demo):
        client = Client(url)
        yield client, demo
        client.http.close()


@pytest.fixture
def client(open_server):
    return open_server[0]


@pytest.fixture
def held():
    """Return a gate that holds the model; everything has left when it is closed."""
    with gate(load("storyteller").model, free=0) as gated:
        yield gated
    comes_true(lambda: not LINE._places)


def ask(client, number, asked, session):
    """Send an event of the page and leave its answer unfetched."""
    sent = {"fn_index": number, "data": [], "event_data": asked, "session_hash": session}
    answer = client.post("/gradio_api/queue/join", json=sent)
    assert answer.status_code == 200, answer.text


def test_gradio_keeps_a_bounded_number_of_visits(open_server):
    client, demo = open_server
    for number in range(SETTINGS.max_sessions + 20):
        sent = {"fn_index": 0, "data": [], "session_hash": f"visit{number}"}
        client.post("/gradio_api/queue/join", json=sent)
    kept = demo.app.state_holder
    comes_true(lambda: 0 < len(kept.session_data) <= SETTINGS.max_sessions)


def test_what_controls_or_reads_is_answered_while_the_line_is_full(client, held, monkeypatch):
    monkeypatch.setattr(api, "SETTINGS", dataclasses.replace(SETTINGS, unheard_s=PATIENCE_S))
    monkeypatch.setattr(permits, "SETTINGS", dataclasses.replace(SETTINGS, max_waiting_runs=3))
    # More than the line takes, and more than Gradio's own queue would have taken.
    data = {"data": ["Once", None, {}, 0]}
    calls = [client.post("/gradio_api/call/greedy", json=data).json() for _ in range(45)]
    comes_true(lambda: len(LINE._places) == 4)
    config = client.get("/config").json()
    inputs, stops = events_of(config), events_of(config, "stop")
    link = {"action": "link", "id": 7, "search": "?tab=greedy"}
    assert '"id": 7' in json.loads(client.join(inputs["dp-ask-bus"], link))["data"][0]
    state = json.loads(client.join(inputs["dp-bus"], {"run": "nobody's"}))["data"][0]
    assert json.loads(state)["messages"] == []
    client.join(stops["greedy"], {"run": "nobody's"})
    refused = client.get(f"/gradio_api/call/greedy/{calls[-1]['event_id']}").text
    assert "The queue is full: 3 runs wait already." in refused
    monkeypatch.setattr(api, "SETTINGS", dataclasses.replace(SETTINGS, unheard_s=0.0))


@pytest.mark.parametrize("listened", [False, True], ids=["never fetched", "dropped"])
def test_a_call_that_nobody_waits_for_ends(client, held, monkeypatch, listened):
    short = dataclasses.replace(SETTINGS, unheard_s=PATIENCE_S if listened else 0.2)
    monkeypatch.setattr(api, "SETTINGS", short)
    data = {"data": ["Once", None, {}, 0]}
    event = client.post("/gradio_api/call/greedy", json=data).json()["event_id"]
    held.wait()
    (place,) = LINE._places
    if listened:
        with client.http.stream("GET", f"/gradio_api/call/greedy/{event}") as answer:
            next(answer.iter_raw())
        monkeypatch.setattr(api, "SETTINGS", dataclasses.replace(SETTINGS, unheard_s=0.2))
    comes_true(place.cancelled.is_set)
    held.open()
    comes_true(lambda: not LINE._places)
    assert held.passes == 1


def test_what_a_page_that_never_listens_asks_for_ends(client, held, monkeypatch):
    monkeypatch.setattr(going, "SETTINGS", dataclasses.replace(SETTINGS, unheard_s=0.2))
    number = events_of(client.get("/config").json())["greedy"]
    ask(client, number, GREEDY, "ghost")
    held.wait()
    (place,) = LINE._places
    comes_true(place.cancelled.is_set)
    held.open()
    comes_true(lambda: not LINE._places)
    assert held.passes == 1


def test_a_page_that_said_it_would_come_is_waited_for(client, held, monkeypatch):
    short = dataclasses.replace(SETTINGS, unheard_s=0.0, away_s=PATIENCE_S)
    monkeypatch.setattr(going, "SETTINGS", short)
    number = events_of(client.get("/config").json())["greedy"]
    assert client.get("/here?press=mine").status_code == 204
    ask(client, number, {**GREEDY, "press": "mine", "params": {"max_new_tokens": 3}}, "slow")
    held.wait()
    held.open()
    comes_true(lambda: not LINE._places)
    assert held.passes == 3
    said = client.join(number, {"press": "mine", "resume": True, "run": "", "next": 0})
    assert '\\"kind\\":\\"finish\\"' in json.dumps(json.loads(said.splitlines()[-2])), said
    # The same press again is the same run.
    client.join(number, {**GREEDY, "press": "mine"})
    assert held.passes == 3
    lost = client.join(number, {"press": "another's", "resume": True, "run": "x"})
    assert '\\"messages\\":[]' in lost


def test_a_page_that_comes_back_is_sent_what_it_missed(client):
    number = events_of(client.get("/config").json())["greedy"]
    said = client.join(number, {**GREEDY, "press": "back", "params": {"max_new_tokens": 3}})
    (run,) = set(re.findall(r'\brun\\+":\\+"(\w+)', said))
    numbers = numbers_of(said)
    assert numbers == set(range(len(numbers)))
    back = {"press": "back", "resume": True, "run": run}
    for following in (0, 1, len(numbers) - 1):
        again = client.join(number, {**back, "next": following})
        assert numbers_of(again) == {n for n in numbers if n >= following}


def numbers_of(said):
    """Return the numbers of the messages that a page was sent."""
    return set(map(int, re.findall(r'\bseq\\+":(\d+)', said)))


@pytest.mark.parametrize(
    ("origin", "status"),
    [(None, 200), ("same", 200), ("http://evil.example", 403), ("null", 403)],
)
@pytest.mark.parametrize("path", ["/gradio_api/upload", "/gradio_api/call/greedy"])
def test_a_page_of_another_origin_may_not_ask(client, path, origin, status):
    headers = {} if origin is None else {"origin": client.url if origin == "same" else origin}
    sent = {"files": {"files": ("a.json", b"{}")}} if path.endswith("upload") else {}
    sent = sent or {"json": {"data": ["", None, {}, 0]}}
    assert client.post(path, headers=headers, **sent).status_code == status


def answer_of(monkeypatch, public):
    monkeypatch.setattr(web, "SETTINGS", dataclasses.replace(SETTINGS, public=public))
    route = Route("/", lambda request: PlainTextResponse("x"))
    app = Starlette(routes=[route], middleware=web.middleware())
    return TestClient(app, base_url="http://127.0.0.1").get("/")


def test_who_may_frame_the_page(client, monkeypatch):
    for answer in (client.get("/"), answer_of(monkeypatch, public=False)):
        rules = answer.headers["content-security-policy"].split("; ")
        assert "frame-ancestors 'self'" in rules
        assert "default-src 'self'" in rules
        assert answer.headers["x-content-type-options"] == "nosniff"
    monkeypatch.setenv("PLAYGROUND_FRAMES", "https://school.example")
    rules = answer_of(monkeypatch, public=True).headers["content-security-policy"].split("; ")
    (frames,) = [rule for rule in rules if rule.startswith("frame-ancestors")]
    assert frames.split()[1:] == [
        "'self'",
        "https://huggingface.co",
        "https://*.huggingface.co",
        "https://*.hf.space",
        "https://school.example",
    ]


def test_uploads_have_little_room_and_go_by_themselves(tmp_path):
    uploads = Uploads(tmp_path, most_bytes=100, age_s=1000.0)
    for number, age in enumerate((3000, 30, 20, 10)):
        path = tmp_path / str(number) / "a.json"
        path.parent.mkdir()
        path.write_bytes(b"x" * 30)
        os.utime(path, (time.time() - age,) * 2)

    def left():
        return sorted(path.parent.name for path in tmp_path.rglob("a.json"))

    uploads.make_room(5)
    assert left() == ["1", "2", "3"], "what is old goes"
    uploads.make_room(40)
    assert left() == ["2", "3"], "the oldest goes where there is no room"
    uploads.remove(str(tmp_path / "2" / "a.json"))
    other = tmp_path.parent / "elsewhere.json"
    other.write_text("{}")
    uploads.remove(str(other))
    assert left() == ["3"]
    assert other.exists()
    uploads.clear()
    assert not tmp_path.exists()


@pytest.mark.parametrize(
    ("host", "forwarded", "public", "address"),
    [
        ("127.0.0.1", "", False, ""),
        ("::1", "", False, ""),
        ("192.0.2.7", "198.51.100.1", False, "192.0.2.7"),
        ("10.16.3.80", "8.8.8.8", True, "8.8.8.8"),
        ("10.16.3.80", "1.1.1.1, 8.8.8.8", True, "8.8.8.8"),
        ("10.16.3.80", "8.8.8.8, 10.0.0.2", True, "8.8.8.8"),
        ("10.16.3.80", "nonsense", True, "10.16.3.80"),
        ("10.16.3.80", "2001:4860:4860:1:2:3:4:5", True, "2001:4860:4860:1::"),
        ("8.8.4.4", "", True, "8.8.4.4"),
        ("127.0.0.1", "", True, "127.0.0.1"),
        ("", "", False, ""),
    ],
)
def test_an_address_is_what_the_nearest_proxy_saw(host, forwarded, public, address):
    assert address_of(host, forwarded, public) == address


def test_listeners_are_counted_by_their_streams():
    listeners, long_ago = Listeners(), time.monotonic() - 1000
    assert listeners.alone_s("", long_ago) == 0
    assert listeners.alone_s("a", long_ago) >= 1000
    assert not listeners.came("a")
    with listeners.listening("a"):
        with listeners.listening("a"):
            assert listeners.alone_s("a", long_ago) == 0
        assert listeners.alone_s("a", long_ago) == 0
        assert listeners.came("a")
    assert 0 <= listeners.alone_s("a", long_ago) < 1000
    assert listeners.came("a")
