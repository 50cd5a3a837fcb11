"""How much longer a page and a run take while somebody sends small inputs that would cost much."""

from __future__ import annotations

import base64
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

from benchmarks.about import Goal
from benchmarks.reliability.cards import Measured, Part
from tests.helpers.bombs import lists, picture
from tests.helpers.client import Client
from tests.helpers.server import process

_JSON = {"content-type": "application/json"}
_CALL, _JOIN = "/gradio_api/call/greedy", "/gradio_api/queue/join"
_TOKENS = 20
_PATIENT_S = 120.0


def _bombs() -> dict[str, tuple[str, bytes]]:
    """Return name -> (path, body) of inputs that fit the limits on their size."""
    call = b'{"data": [%s, null, %s, 0]}'
    tall = base64.b64encode(picture(1, 39_000_000, "PNG"))
    return {
        "lists in a call": (_CALL, call % (b'"a"', b'{"bad_words_ids": %s}' % lists(900_000))),
        "lists beside a picture": (_CALL, call % (b'{"image": "aGk="}', lists(35_000_000))),
        "lists in an event": (_JOIN, b'{"fn_index": 0, "data": [], "p": %s}' % lists(900_000)),
        "a picture of one column": (
            _CALL,
            call % (b'{"image": "%s", "prompt": "a"}' % tall, b"{}"),
        ),
        "lists as a recorded run": ("/rich", b'{"trace": %s, "flags": {}}' % lists(900_000)),
    }


def _send(client: httpx.Client, path: str, body: bytes) -> bool:
    """Send a bomb and fetch its answer; return whether it was refused."""
    try:
        answer = client.post(path, content=body, headers=_JSON)
        if answer.status_code == httpx.codes.OK and path == _CALL:
            answer = client.get(f"{path}/{answer.json()['event_id']}")
            return "event: error" in answer.text
    except httpx.HTTPError:
        return False
    return answer.status_code >= httpx.codes.BAD_REQUEST


def _send_repeatedly(url: str, ended: threading.Event, path: str, body: bytes) -> list[bool]:
    with httpx.Client(base_url=url, timeout=_PATIENT_S) as client:
        found = []
        while not ended.is_set():
            found.append(_send(client, path, body))
        return found


def _visit(client: Client, seed: int) -> tuple[float, float]:
    """Open the page and run the embedded model; return the seconds of both, infinite if one failed."""
    began = time.monotonic()
    opened = client.get("/").status_code == httpx.codes.OK
    page = time.monotonic()
    params = {"max_new_tokens": _TOKENS}
    done = client.call("greedy", "Once upon a time", None, params, seed)[0] == "complete"
    ended = time.monotonic()
    return (page - began if opened else float("inf"), ended - page if done else float("inf"))


def _memory_mb(pid: int, name: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1000


def watched(url: str, pid: int, n: int, seed: int) -> Measured:
    """Measure ``n`` visits alone, and ``n`` beside each bomb."""
    client, refused, sent, besides = Client(url), 0, 0, []
    with client.http:
        _visit(client, seed)  # the first one loads the model
        alone = [_visit(client, seed + i) for i in range(n)]
        before = _memory_mb(pid, "VmRSS")
        for path, body in _bombs().values():
            answers = _beside(
                url, path, body, lambda: besides.extend(_visit(client, seed + i) for i in range(n))
            )
            refused, sent = refused + sum(answers), sent + len(answers)
        after, peak = _memory_mb(pid, "VmRSS"), _memory_mb(pid, "VmHWM")
    pages, runs = zip(*alone, strict=True)
    page, run = statistics.median(pages), statistics.median(runs)
    figures = {
        "failed": sum(float("inf") in visit for visit in (*alone, *besides)),
        "not_refused": sent - refused,
        "sent": sent,
        "page_alone_median_s": round(page, 3),
        "run_alone_median_s": round(run, 3),
        "page_worst_beyond_alone_s": round(max(p for p, _ in besides) - page, 3),
        "run_worst_beyond_alone_s": round(max(r for _, r in besides) - run, 3),
        "more_memory_at_most_mb": round(peak - before),
        "more_memory_after_mb": round(after - before),
    }  # fmt: skip
    return Measured(len(besides), figures)


def _beside(url: str, path: str, body: bytes, work: Callable[[], None]) -> list[bool]:
    ended = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(_send_repeatedly, url, ended, path, body)
        try:
            work()
        finally:
            ended.set()
        return sending.result()


def measure(n: int, seed: int) -> Measured:
    """Serve from a process of its own and measure ``n`` visits beside each bomb."""
    with tempfile.TemporaryDirectory() as folder, process(Path(folder) / "log") as (url, served):
        return watched(url, served.pid, n, seed)


PART = Part(
    name="bombs",
    title="The page and runs beside small inputs that would cost much (n visits)",
    goals={
        "failed": Goal(0),
        "not_refused": Goal(0),
        "page_worst_beyond_alone_s": Goal(1.0, of_speed=True),
        "run_worst_beyond_alone_s": Goal(1.0, of_speed=True),
        "more_memory_at_most_mb": Goal(100),
    },
    measure=measure,
    short=5,
    nightly=50,
)
