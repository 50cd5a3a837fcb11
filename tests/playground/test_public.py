"""What one visitor does reaches no other: sessions, lanes, listeners, origins, uploads, addresses."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import socket
import sys
import time

import pytest
from gradio import networking
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from engine.models.loading import load
from engine.run import scheduler
from engine.run.scheduler import RUN_QUEUE
from engine.settings import SETTINGS
from playground.jobs import registry
from playground.server import idle_timeout, middleware
from playground.shell.listeners import LISTENERS, Listeners
from playground.shell.visitors import visitor_address
from playground.storage.uploads import UploadFolder
from tests.helpers.client import Client
from tests.helpers.events import events_of
from tests.helpers.gates import gate_between_runs
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.queue import wait_for_all_runs
from tests.helpers.served import SERVED_HERE, served

pytestmark = SERVED_HERE
GREEDY = {"strategy": "greedy", "prompt": "Once", "model": "storyteller", "seed": 0, "params": {}}


@pytest.fixture
def client(open_server):
    return open_server[0]


@pytest.fixture
def held():
    with gate_between_runs(load("storyteller").model) as gated:
        yield gated


def be_patient(monkeypatch, unheard_s):
    """Let a run whose page has never listened go on for so many seconds."""
    monkeypatch.setattr(registry, "SETTINGS", dataclasses.replace(SETTINGS, unheard_s=unheard_s))


def ask(client, number, asked, session):
    """Send an event of the page and leave its answer unfetched."""
    sent = {"fn_index": number, "data": [], "event_data": asked, "session_hash": session}
    answer = client.post("/gradio_api/queue/join", json=sent)
    assert answer.status_code == 200, answer.text


@pytest.mark.nightly
def test_gradio_keeps_a_bounded_number_of_visits(open_server):
    client, demo = open_server
    for number in range(SETTINGS.max_sessions + 20):
        sent = {"fn_index": 0, "data": [], "session_hash": f"visit{number}"}
        client.post("/gradio_api/queue/join", json=sent)
    kept = demo.app.state_holder
    comes_true(lambda: 0 < len(kept.session_data) <= SETTINGS.max_sessions)


def test_what_controls_or_reads_is_answered_while_the_line_is_full(client, held, monkeypatch):
    be_patient(monkeypatch, PATIENCE_S)
    monkeypatch.setattr(scheduler, "SETTINGS", dataclasses.replace(SETTINGS, max_waiting_runs=3))
    # More than the line takes, and more than Gradio's own queue would have taken.
    data = {"data": ["Once", None, {}, 0]}
    calls = [client.post("/gradio_api/call/greedy", json=data).json() for _ in range(45)]
    comes_true(lambda: len(RUN_QUEUE._tickets) == 4)
    inputs = events_of(client.get("/config").json())
    link = {"action": "link", "id": 7, "search": "?tab=greedy"}
    assert '"id":7,' in json.loads(client.join(inputs["dp-ask-bus"], link))["data"][0]
    state = json.loads(client.join(inputs["dp-bus"], {"run": "nobody's"}))["data"][0]
    assert json.loads(state)["messages"] == []
    stop = {"action": "stop", "id": 8, "press": "nobody's"}
    assert json.loads(client.join(inputs["dp-ask-bus"], stop))["data"][0] == '{"id":8}'
    refused = client.get(f"/gradio_api/call/greedy/{calls[-1]['event_id']}").text
    assert "The queue is full: 3 runs wait already." in refused
    be_patient(monkeypatch, 0.0)
    held.open()
    # The next test must not meet one that Gradio begins late.
    for call in calls[:-1]:
        client.get(f"/gradio_api/call/greedy/{call['event_id']}")


@pytest.mark.by_day("never fetched")
@pytest.mark.parametrize("listened", [False, True], ids=["never fetched", "dropped"])
def test_a_call_that_nobody_waits_for_ends(client, held, monkeypatch, listened):
    be_patient(monkeypatch, PATIENCE_S)
    data = {"data": ["Once", None, {}, 0]}
    event = client.post("/gradio_api/call/greedy", json=data).json()["event_id"]
    held.wait()
    (place,) = RUN_QUEUE._tickets
    if listened:
        with client.http.stream("GET", f"/gradio_api/call/greedy/{event}") as answer:
            next(answer.iter_raw())
    # Only now, as a busy machine may take long to begin the run.
    be_patient(monkeypatch, 0.2)
    comes_true(place.cancelled.is_set)
    held.open()
    wait_for_all_runs()
    assert held.passes == 1


def test_what_a_page_that_never_listens_asks_for_ends(client, held, monkeypatch):
    be_patient(monkeypatch, PATIENCE_S)
    number = events_of(client.get("/config").json())["greedy"]
    ask(client, number, GREEDY, "ghost")
    held.wait()
    (place,) = RUN_QUEUE._tickets
    be_patient(monkeypatch, 0.2)
    comes_true(place.cancelled.is_set)
    held.open()
    wait_for_all_runs()
    assert held.passes == 1


def test_a_page_that_said_it_would_come_is_waited_for(client, held, monkeypatch):
    short = dataclasses.replace(SETTINGS, unheard_s=0.0, away_s=PATIENCE_S)
    monkeypatch.setattr(registry, "SETTINGS", short)
    number = events_of(client.get("/config").json())["greedy"]
    assert client.get("/here?press=mine").status_code == 204
    ask(client, number, {**GREEDY, "press": "mine", "params": {"max_new_tokens": 3}}, "slow")
    held.wait()
    held.open()
    wait_for_all_runs()
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


def called(client, headers):
    """Return the status of a call that has ended: the next test meets no run of it."""
    path = "/gradio_api/call/greedy"
    answer = client.post(path, headers=headers, json={"data": ["", None, {}, 0]})
    if answer.status_code == 200:
        client.get(f"{path}/{answer.json()['event_id']}")
    return answer.status_code


@pytest.mark.parametrize(
    ("origin", "status"),
    [(None, 200), ("same", 200), ("http://evil.example", 403), ("null", 403)],
)
@pytest.mark.parametrize("path", ["/gradio_api/upload", "/gradio_api/call/greedy"])
def test_a_page_of_another_origin_may_not_ask(client, path, origin, status):
    headers = {} if origin is None else {"origin": client.url if origin == "same" else origin}
    if path.endswith("upload"):
        answer = client.post(path, headers=headers, files={"files": ("a.json", b"{}")})
        assert answer.status_code == status
    else:
        assert called(client, headers) == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"sec-fetch-site": "same-origin", "origin": "https://a-space.hf.space"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "https://a-space.hf.space", "x-forwarded-host": "a-space.hf.space"}, 200),
    ],
    ids=str,
)
def test_what_a_browser_says_of_the_page_that_asks_counts(client, headers, status):
    assert called(client, headers) == status


@pytest.mark.parametrize("prefix", ["", "/gradio_api"])
@pytest.mark.parametrize(
    "path",
    [
        "/docs",
        "/redoc",
        "/deep_link",
        "/monitoring/summary",
        "/runs",
        "/dev/reload",
        "/vibe-code/",
        "/run-history/records",
        "/profiling/summary",
        "/proxy=http://127.0.0.1:1/x",
        "/stream/a/1/2/playlist.m3u8",
    ],
)
def test_what_neither_the_page_nor_a_program_uses_is_closed(client, prefix, path):
    assert client.get(prefix + path).status_code == 404


@pytest.mark.parametrize(
    "path", ["/api/greedy", "/run/greedy", "/component_server", "/call/v2/nothing"]
)
def test_what_goes_round_the_line_is_closed(client, path):
    sent = {"data": ["Once", None, {}, 0]}
    assert client.post("/gradio_api" + path, json=sent).status_code == 404


def test_the_source_of_the_page_names_no_folder_of_the_machine(client):
    text = client.get("/").text + client.get("/config").text
    assert str(middleware.__file__).rpartition("/playground/")[0] not in text
    assert sys.prefix not in text
    (address,) = set(re.findall(r"scripts/[0-9a-f]{16}/plotly\.js", text))
    plotly = client.get("/" + address)
    assert plotly.status_code == 200
    assert "immutable" in plotly.headers["cache-control"]
    assert b"plotly.js v" in plotly.content[:300]


@pytest.mark.parametrize(
    ("host", "status"),
    [("[::1]:{}", 200), ("[::1]", 200), ("localhost:{}", 200), ("evil.example", 400), ("", 400)],
)
def test_the_page_answers_under_the_names_of_this_machine_alone(client, host, status):
    port = client.url.rpartition(":")[2]
    assert client.get("/here", headers={"host": host.format(port)}).status_code in (status, 204)
    assert (client.get("/", headers={"host": host.format(port)}).status_code) == status


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-",
        b"GET /here HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / HT",
        b"POST /gradio_api/call/greedy HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{",
        b"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n"
        b"Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n",
    ],
    ids=["nothing", "half a head", "half a second head", "half a body", "half an upload"],
)
def test_a_connection_that_never_asks_is_closed(client, monkeypatch, sent):
    short = dataclasses.replace(SETTINGS, max_body_s=0.5)
    monkeypatch.setattr(idle_timeout, "SETTINGS", short)
    monkeypatch.setattr(middleware, "SETTINGS", short)
    port = int(client.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as line:
        line.sendall(sent)
        while line.recv(65536):  # until the other end is closed
            pass
    assert client.get("/here").status_code == 204


@pytest.mark.nightly
def test_a_server_under_traffic_does_not_give_itself_up(monkeypatch):
    monkeypatch.setattr(networking, "url_ok", lambda url: False)
    with served() as (url, _):
        assert Client(url).get("/here").status_code == 204


def test_no_more_is_remembered_of_a_session_than_one_may_have(client):
    client.get("/gradio_api/queue/data?session_hash=" + "x" * 10_000)
    kept = [*LISTENERS._left, *LISTENERS._open]
    assert "x" * 64 in kept
    assert max(map(len, kept)) <= 64


def test_what_is_not_given_for_an_event_is_in_no_log(client, capfd):
    number = events_of(client.get("/config").json())["greedy"]
    for data in (["a secret prompt"], ["a secret prompt"] * 3):
        client.refused(number, {"prompt": "a secret prompt"}, data)
    client.post("/gradio_api/call/greedy", json={"data": ["a secret prompt"]})
    client.call("greedy", "a secret prompt", None, {"max_new_tokens": "a secret prompt"}, 0)
    printed = capfd.readouterr()
    assert "secret" not in printed.out + printed.err


def test_a_page_that_asks_for_a_run_in_an_odd_way_is_answered(client):
    number = events_of(client.get("/config").json())["dp-bus"]
    for run in (None, 5, [], {"a": []}, "x" * 10_000, "\ud800"):
        assert '\\"messages\\":[]' in client.join(number, {"run": run})
    for asked in (None, [], "x", 5):
        assert '\\"messages\\":[]' in client.join(number, asked)


def answer_of(monkeypatch, public):
    monkeypatch.setattr(middleware, "SETTINGS", dataclasses.replace(SETTINGS, public=public))
    route = Route("/", lambda request: PlainTextResponse("x"))
    app = Starlette(routes=[route], middleware=middleware.build_middleware({}))
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
    uploads = UploadFolder(tmp_path, most_bytes=100, age_s=1000.0)
    for number, age in enumerate((3000, 30, 20, 10)):
        path = tmp_path / str(number) / "a.json"
        path.parent.mkdir()
        path.write_bytes(b"x" * 30)
        os.utime(path, (time.time() - age,) * 2)

    def left():
        return sorted(path.parent.name for path in tmp_path.rglob("a.json"))

    uploads.free_space(5)
    assert left() == ["1", "2", "3"], "what is old goes"
    uploads.free_space(40)
    assert left() == ["2", "3"], "the oldest goes where there is no room"
    uploads.remove(str(tmp_path / "2" / "a.json"))
    other = tmp_path.parent / "elsewhere.json"
    other.write_text("{}")
    uploads.remove(str(other))
    assert left() == ["3"]
    assert other.exists()


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
        ("::ffff:127.0.0.1", "", False, ""),
        ("::ffff:192.0.2.7", "", False, "192.0.2.7"),
        ("::ffff:8.8.4.4", "", True, "8.8.4.4"),
        ("10.16.3.80", "1.1.1.1, 8.8.8.8:443", True, "8.8.8.8"),
        ("10.16.3.80", "1.1.1.1, [2001:4860:4860:1::5]:443", True, "2001:4860:4860:1::"),
        ("10.16.3.80", "1.1.1.1, unknown", True, "10.16.3.80"),
        ("10.16.3.80", "1.1.1.1, unknown, 10.0.0.2", True, "10.16.3.80"),
    ],
)
def test_an_address_is_what_the_nearest_proxy_saw(host, forwarded, public, address):
    assert visitor_address(host, forwarded, public) == address


def test_listeners_are_counted_by_their_streams():
    listeners, long_ago = Listeners(), time.monotonic() - 1000
    assert listeners.idle_s("", long_ago) == 0
    assert listeners.idle_s("a", long_ago) >= 1000
    assert not listeners.has_listened("a")
    with listeners.open_stream("a"):
        with listeners.open_stream("a"):
            assert listeners.idle_s("a", long_ago) == 0
        assert listeners.idle_s("a", long_ago) == 0
        assert listeners.has_listened("a")
    assert 0 <= listeners.idle_s("a", long_ago) < 1000
    assert listeners.has_listened("a")
