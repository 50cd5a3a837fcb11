"""The HTTP side: endpoints, refusals, closed doors, limits."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.bad_inputs import BEAMS, PARAMS, label

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {**os.environ, "PLAYGROUND_PORT": str(port), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env=environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        try:
            httpx.get(url, timeout=5)
            break
        except httpx.HTTPError:
            assert process.poll() is None
            time.sleep(0.3)
    yield url
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0, "SIGTERM must end cleanly"


def call(server, strategy, *values):
    """Return (event, data) of a queued call as any HTTP client makes it."""
    body = json.dumps({"data": values})  # NaN passes, as a careless client would send it
    asked = httpx.post(
        f"{server}/gradio_api/call/{strategy}",
        content=body,
        timeout=30,
        headers={"content-type": "application/json"},
    )
    if asked.status_code != 200:
        return "refused", asked.text
    event, answer = (
        "",
        httpx.get(f"{server}/gradio_api/call/{strategy}/{asked.json()['event_id']}", timeout=60),
    )
    for line in answer.text.splitlines():
        if line.startswith("event: "):
            event = line.removeprefix("event: ")
        elif line.startswith("data: ") and event in ("complete", "error"):
            return event, json.loads(line.removeprefix("data: "))
    return "none", answer.text


def works(server):
    event, data = call(server, "greedy", "Once upon", None, {"max_new_tokens": 3}, 0)
    assert event == "complete", data
    return data[0]["outputs"][0]


def test_endpoints_decode(server):
    output = works(server)
    assert len(output["token_ids"]) == 3
    same = [
        call(server, "sampling", "Once", None, {"max_new_tokens": 6}, 7)[1][0]["outputs"]
        for _ in range(2)
    ]
    assert same[0] == same[1]


@pytest.mark.parametrize(("strategy", "others", "name", "value", "allowed"), BEAMS, ids=label)
def test_bad_beams_get_a_sentence(server, strategy, others, name, value, allowed):
    params = {"max_new_tokens": 3, **others, name: value}
    event, data = call(server, strategy, "Once", None, params, 0)
    text = json.dumps(data)
    assert event in ("error", "refused"), text
    assert "Traceback" not in text
    if event == "error" and data is not None:
        assert name in text
        assert allowed in text


@pytest.mark.parametrize(("name", "value", "allowed"), PARAMS, ids=label)
def test_bad_parameters_get_a_sentence(server, name, value, allowed):
    event, data = call(server, "sampling", "Once", None, {"max_new_tokens": 3, name: value}, 0)
    text = json.dumps(data)
    assert event in ("error", "refused"), text
    assert "Traceback" not in text
    if event == "error" and data is not None:
        assert name in text


@pytest.mark.parametrize(
    "values",
    [
        ("", None, {}, 0),
        (5, None, {}, 0),
        ({"a": 1}, None, {}, 0),
        ("Once", None, "x", 0),
        ("Once", None, [], 0),
        ("Once", None, {}, -1),
        ("Once", None, {}, "7"),
        ("Once", "/etc/passwd", {}, 0),
        ("Once", None, {"foo": 1}, 0),
    ],
    ids=label,
)
def test_bad_requests_get_a_sentence_and_the_next_works(server, values):
    event, data = call(server, "greedy", *values)
    assert event == "error"
    assert "is not allowed" in json.dumps(data)
    works(server)


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/run/greedy",
        "/gradio_api/deep_link",
        "/monitoring/summary",
        "/gradio_api/runs",
        "/gradio_api/dev/reload",
        "/openapi.json",
        "/docs",
        "/gradio_api/call/nothing",
    ],
)
def test_closed_doors(server, path):
    assert httpx.post(server + path, json={"data": []}).status_code in (404, 405)
    assert httpx.get(server + path).status_code in (404, 405)


def test_large_bodies(server):
    big = json.dumps({"data": ["a" * 2_000_000, None, {}, 0]}).encode()
    assert httpx.post(f"{server}/gradio_api/call/greedy", content=big).status_code == 413

    def chunks():
        for _ in range(20):
            yield b"a" * 100_000

    assert httpx.post(f"{server}/gradio_api/call/greedy", content=chunks()).status_code == 413
    works(server)


@pytest.mark.parametrize("body", [b"", b"{", b"[" * 100_000, b"null", b"5"])
def test_broken_bodies(server, body):
    answer = httpx.post(
        f"{server}/gradio_api/call/greedy",
        content=body,
        headers={"content-type": "application/json"},
    )
    assert answer.status_code in (400, 422)
    assert "Traceback" not in answer.text


@pytest.mark.parametrize("path", ["/etc/passwd", "../app.py", "/proc/self/environ", "app.py"])
def test_files_are_not_served(server, path):
    assert httpx.get(f"{server}/gradio_api/file={path}").status_code in (400, 403, 404)


def test_other_hosts_are_refused(server):
    assert httpx.get(server, headers={"host": "evil.example"}).status_code == 400


def test_garbage_to_the_queue(server):
    for data in (
        {"fn_index": 999, "data": [], "session_hash": "x"},
        {"fn_index": -1, "data": [], "session_hash": "x"},
    ):
        assert httpx.post(f"{server}/gradio_api/queue/join", json=data).status_code in range(
            400, 500
        )
    long = {"fn_index": 1, "data": [], "session_hash": "x" * 100_000}
    assert httpx.post(f"{server}/gradio_api/queue/join", json=long).status_code == 400
    assert httpx.post(f"{server}/gradio_api/cancel", json={"x": 1}).status_code == 422
    works(server)


def page_run(server, position, value):
    """Send the page's own Run event of the greedy tab with one control's value replaced."""
    config = httpx.get(f"{server}/config").json()
    parts = {part["id"]: part for part in config["components"]}
    [button] = [i for i, part in parts.items() if part["props"].get("elem_id") == "greedy-run"]
    event = next(d for d in config["dependencies"] if [button, "click"] in d["targets"])
    data = [parts[i]["props"].get("value") for i in event["inputs"]]
    data[position] = value
    session = f"s{position}{abs(hash(str(value)))}"
    body = json.dumps({"fn_index": event["id"], "data": data, "session_hash": session})
    joined = httpx.post(
        f"{server}/gradio_api/queue/join",
        content=body,
        headers={"content-type": "application/json"},
    )
    assert joined.status_code == 200, joined.text
    url = f"{server}/gradio_api/queue/data?session_hash={session}"
    with httpx.stream("GET", url, timeout=30) as stream:
        for line in stream.iter_lines():
            message = json.loads(line.removeprefix("data: ")) if line.startswith("data: ") else {}
            if message.get("msg") == "process_completed":
                return json.dumps(message["output"])
    return ""


@pytest.mark.parametrize(
    ("position", "value", "name"),
    [
        (4, 999_999, "max_new_tokens"),
        (4, float("nan"), "max_new_tokens"),
        (4, "abc", "max_new_tokens"),
        (4, None, "max_new_tokens"),
        (4, {}, "max_new_tokens"),
        (1, ["a"], "model"),
        (1, "zzz", "model"),
        (1, {"a": 1}, "model"),
        (0, 5, "prompt"),
        (0, {"a": 1}, "prompt"),
        (0, None, "prompt"),
        (3, "x", "seed"),
        (3, -1, "seed"),
        (3, 1.5, "seed"),
        (3, None, "seed"),
    ],
    ids=label,
)
def test_the_pages_own_event_refuses_what_its_controls_would_not_send(
    server, position, value, name
):
    text = page_run(server, position, value)
    assert "is not allowed" in text, text
    assert name in text


def test_an_unknown_event_is_told_cleanly_twice(server):
    for _ in range(2):
        assert "404" in httpx.get(f"{server}/gradio_api/call/greedy/unknown").text
