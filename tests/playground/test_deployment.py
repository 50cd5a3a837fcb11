"""What docs/deployment.md promises, of app.py as it is started."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import pytest

from engine.temporary_folder import PREFIX, TemporaryFolder
from tests.helpers.events import events_of
from tests.helpers.patience import PATIENCE_S, comes_true
from tests.helpers.server import ROOT, playground, process

_JSON = {"content-type": "application/json"}


def _client(url: str) -> httpx.Client:
    return httpx.Client(base_url=url, timeout=PATIENCE_S)


@pytest.mark.nightly
def test_a_classroom_is_served_by_every_process_and_outlives_the_one_that_opened_it(tmp_path):
    storage = tmp_path / "journal.db"
    with (
        process(tmp_path / "one.txt", journal=storage) as (first, killed),
        playground(tmp_path / "two.txt", journal=storage) as second,
        _client(first) as teacher,
        _client(second) as pupil,
    ):
        lesson = json.dumps({"lesson": "temperature"})
        opened = teacher.post("/rooms", content=lesson, headers=_JSON).json()
        room = f"/room/{opened['code']}"
        assert pupil.get(room).status_code == 200
        cookie = dict(pupil.cookies)
        killed.send_signal(signal.SIGKILL)
        killed.wait(PATIENCE_S)
        assert pupil.get(room).status_code == 200
        assert dict(pupil.cookies) == cookie, "the pupil did not enter a second time"
        secret = {"x-room-secret": opened["secret"]}
        for card, status in ((2, 200), (999, 400)):
            act = json.dumps({"act": "show", "card": card})
            answer = pupil.post(f"{room}/teach", content=act, headers=_JSON | secret)
            assert answer.status_code == status, answer.text
    assert storage.stat().st_mode & 0o777 == 0o600


def _upload(url: str) -> str:
    """Upload a file and return its path on the server."""
    with _client(url) as client:
        answer = client.post("/gradio_api/upload", files={"files": ("a.json", b"{}")})
    assert answer.status_code == 200, answer.text
    return answer.json()[0]


@pytest.mark.nightly
def test_the_owners_files_in_the_upload_folder_stay_and_those_of_a_killed_server_go(
    tmp_path, monkeypatch
):
    there = tmp_path / "uploads"
    own = there / "years" / "old.txt"
    own.parent.mkdir(parents=True)
    own.write_text("mine")
    os.utime(own, (0, 0))
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(there))
    with process(tmp_path / "killed.txt") as (url, killed):
        left = Path(_upload(url))
        assert left.is_relative_to(there)
        killed.kill()
        killed.wait(PATIENCE_S)
    assert left.exists()
    with playground(tmp_path / "next.txt") as url:
        assert not left.exists(), "the next start removes what a killed process left"
        assert Path(_upload(url)).is_relative_to(there)
    assert [path for path in there.rglob("*") if path.is_file()] == [own]
    assert own.read_text() == "mine"
    assert [path.name for path in there.iterdir()] == ["years"]


def _open_room(client: httpx.Client, address: str) -> httpx.Response:
    """Open a room as a proxy of this machine reports an address."""
    headers = _JSON | {"x-forwarded-for": address}
    return client.post("/rooms", content=json.dumps({"lesson": "temperature"}), headers=headers)


@pytest.mark.nightly
def test_fifty_empty_rooms_lock_no_teacher_out(tmp_path):
    with playground(tmp_path / "log.txt") as url, _client(url) as client:
        taught = _open_room(client, "192.0.2.1").json()
        secret = {"x-room-secret": taught["secret"]}
        entered = _open_room(client, "192.0.2.2").json()
        assert client.get(f"/room/{entered['code']}").status_code == 200
        events = f"/room/{taught['code']}/events"
        with client.stream("GET", events, headers=secret) as listening:
            assert listening.status_code == 200
            next(listening.iter_lines())
            # Ten of an address are allowed, so that the flood comes from five.
            flood = [_open_room(client, f"198.51.100.{n % 5}") for n in range(50)]
            assert {answer.status_code for answer in flood} == {201}
            for n in range(3, 9):
                assert _open_room(client, f"192.0.2.{n}").status_code == 201
            open_rooms = [client.get(f"/room/{answer.json()['code']}") for answer in flood]
            assert [answer.status_code for answer in open_rooms].count(404) == 8
            act = json.dumps({"act": "show", "card": 2})
            for room in (taught, entered):
                own = _JSON | {"x-room-secret": room["secret"]}
                answer = client.post(f"/room/{room['code']}/teach", content=act, headers=own)
                assert answer.status_code == 200, answer.text


_AMONG_STRANGERS = """
import runpy
from playground.server import proxies
proxies._LOOPBACK = ("192.0.2.0/24",)
runpy.run_path("app.py", run_name="__main__")
"""
"""Serves app.py as it is, except that this machine's programs count as visitors from outside."""
_FORGED = (
    "X-Forwarded-For",
    "X-Real-IP",
    "Forwarded",
    "True-Client-IP",
    "CF-Connecting-IP",
    "X-Client-IP",
    "x-forwarded-FOR",
)


@pytest.mark.nightly
def test_a_stranger_is_believed_neither_who_visits_nor_under_which_host(tmp_path):
    command, limits = ("-c", _AMONG_STRANGERS), {"public": 1, "room_wrong_codes_per_minute": 3}
    with (
        process(tmp_path / "log.txt", command, **limits) as (url, _),
        _client(url) as client,
    ):
        found = []
        for number, name in enumerate(_FORGED):
            forged = f"for=203.0.113.{number}" if name == "Forwarded" else f"203.0.113.{number}"
            found.append(client.get("/room/NNNNNN", headers={name: forged}).status_code)
        assert found == [404] * 3 + [429] * 4, "all of them count as one address"
        for name in ("X-Forwarded-Host", "Forwarded", "X-Forwarded-Server", "X-Original-Host"):
            host = "host=evil.example" if name == "Forwarded" else "evil.example"
            for path in ("/", "/config", "/gradio_api/info", "/room"):
                headers = {name: host, "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": "/evil"}
                text = client.get(path, headers=headers).text
                assert "evil" not in text, (name, path)


@pytest.mark.nightly
def test_every_listener_of_a_session_gets_all_and_an_unread_answer_ends(tmp_path):
    with (
        process(tmp_path / "log.txt", max_body_s=1.0) as (url, served),
        _client(url) as client,
        ThreadPoolExecutor() as pool,
    ):
        number = events_of(client.get("/config").json())["greedy"]
        asked = {"strategy": "greedy", "prompt": "Once", "model": "storyteller", "seed": 0}
        asked |= {"press": "mine", "params": {"max_new_tokens": 5}}
        sent = {"fn_index": number, "data": [], "event_data": asked, "session_hash": "mine"}

        def read() -> list[str]:
            with client.stream("GET", "/gradio_api/queue/data?session_hash=mine") as stream:
                return [line for line in stream.iter_lines() if line and "heartbeat" not in line]

        assert client.post("/gradio_api/queue/join", json=sent).status_code == 200
        other, own = (pool.submit(read) for _ in range(2))
        said = own.result(PATIENCE_S)
        assert "process_completed" in "".join(said)
        assert other.result(PATIENCE_S) == said

        port = int(url.rpartition(":")[2])
        (script,) = set(re.findall(r"scripts/[0-9a-f]{16}/plotly\.js", client.get("/").text))
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect(("127.0.0.1", port))
            own_port = line.getsockname()[1]
            # More than the system's buffers take.
            line.sendall(f"GET /{script} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode() * 4)

            def is_open() -> bool:
                connections = psutil.Process(served.pid).net_connections("tcp")
                return any(c.raddr and c.raddr.port == own_port for c in connections)

            comes_true(lambda: not is_open())
        assert client.get("/here").status_code == 204


@pytest.mark.nightly
def test_the_next_start_removes_what_a_killed_server_left_wherever_it_was(tmp_path, monkeypatch):
    """Uploads go to their own folder, so that none is created next to the others."""
    temporary, models, methods = (tmp_path / name for name in ("temporary", "models", "methods"))
    places = (temporary, models, models / "made", methods / "hub")
    left = [place / f"{PREFIX}{kind}-abc" for place in places for kind in ("model", "offloaded")]
    for folder in left:
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "weights").write_text("large")
    own = [place / "own.txt" for place in places]
    for path in own:
        path.write_text("mine")
    used = TemporaryFolder("used", temporary)
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    monkeypatch.setenv("PLAYGROUND_METHODS", str(methods))
    with playground(tmp_path / "log.txt", models=models):
        assert not [folder for folder in left if folder.exists()]
        assert used.path.exists(), "another process still uses it"
    assert all(path.read_text() == "mine" for path in own)
    used.remove()


def _create_upload_folder() -> subprocess.CompletedProcess[str]:
    code = "from playground.storage.uploads import UPLOADS; print(UPLOADS.folder)"
    return subprocess.run(
        [sys.executable, "-c", code], check=False, cwd=ROOT, capture_output=True, text=True
    )


def test_an_upload_folder_setting_that_is_a_file_is_refused_at_the_start(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("mine")
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "file"))
    said = _create_upload_folder().stderr.strip().splitlines()[-1]
    assert said.endswith("it must be a folder that can be written (FileExistsError)"), said
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("given", ["", "  "])
def test_an_empty_upload_folder_setting_is_not_the_working_folder(given, monkeypatch, tmp_path):
    monkeypatch.setenv("GRADIO_TEMP_DIR", given)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    run = _create_upload_folder()
    assert run.returncode == 0, run.stderr
    folder = Path(run.stdout.strip())
    assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []
