"""How much longer a page and a run take while somebody sends small inputs that would cost much."""

from __future__ import annotations

import base64
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import httpx

from benchmarks.about import Goal
from benchmarks.reliability import answers
from benchmarks.reliability.cards import Measured, Part
from engine.sources.catalogue import MODEL_DIR
from tests.helpers.bombs import lists, picture, zipped_lists
from tests.helpers.client import Client
from tests.helpers.events import events_of
from tests.helpers.server import process

_JSON = {"content-type": "application/json"}
_CALL, _JOIN = "/gradio_api/call/greedy", "/gradio_api/queue/join"
_TOKENS = 20
_TEMPLATES = {
    "a number of a template": "{{ 9**(9**8) }}",
    "a text of a template": "{{ ('a'*2000000000)|length }}",
}
_LESSON = "---\n" + "\n".join(f"k{n}: 1" for n in range(8_000)) + "\n---\n"

Send = Callable[[Client], bool]
"""Sends a bomb and fetches its answer; returns whether it was refused."""
Visit = tuple[float, float]
"""Seconds of a page and of a run, infinite for one that failed."""


def _bombs(url: str, folder: Path) -> dict[str, Send]:
    """Return the inputs that fit the limits on their size, by name.

    Args:
        url: of the server.
        folder: gets models with chat templates.
    """
    client = Client(url)
    with client.http:
        config = client.get("/config").json()
    replay, lessons = events_of(config, "upload")["replay-file"], events_of(config)["lessons"]
    bodies = {name: partial(_post, *body) for name, body in _bodies().items()}
    talks = {
        name: partial(_talk, str(_model(folder / str(number), template)))
        for number, (name, template) in enumerate(_TEMPLATES.items())
    }
    return {
        **bodies,
        **talks,
        "a recorded run as gzip": partial(_replay, replay, zipped_lists(30_000_000)),
        "a lesson of many names": partial(_open_lesson, lessons),
    }


def _model(folder: Path, template: str) -> Path:
    """Write a small model with a chat template."""
    shutil.copytree(MODEL_DIR / "storyteller-draft", folder)
    (folder / "chat_template.jinja").write_text(template)
    return folder


def _talk(model: str, client: Client) -> bool:
    messages = {"messages": [{"role": "user", "content": "Hello"}], "template": {}}
    return client.call("greedy", messages, model, {"max_new_tokens": 2}, 0)[0] == "error"


def _replay(event: int, content: bytes, client: Client) -> bool:
    return answers.replayed(client, event, content)[0] == answers.SENTENCE


def _open_lesson(event: int, client: Client) -> bool:
    return "names and values" in client.join(event, {"text": _LESSON})


def _bodies() -> dict[str, tuple[str, bytes]]:
    """Return name -> (path, body) of requests."""
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


def _post(path: str, body: bytes, client: Client) -> bool:
    answer = client.post(path, content=body, headers=_JSON)
    if answer.status_code == httpx.codes.OK and path == _CALL:
        answer = client.get(f"{path}/{answer.json()['event_id']}")
        return "event: error" in answer.text
    return answer.status_code >= httpx.codes.BAD_REQUEST


def _send_repeatedly(url: str, ended: threading.Event, send: Send) -> list[bool]:
    client, found = Client(url), []
    with client.http:
        while not ended.is_set():
            try:
                found.append(send(client))
            except (httpx.HTTPError, AssertionError):
                found.append(False)
    return found


def visit(client: Client, seed: int) -> Visit:
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


def watched(url: str, pid: int, bombs: Mapping[str, Send], n: int, seed: int) -> Measured:
    """Measure ``n`` visits alone, and ``n`` beside each bomb."""
    client, refused, sent = Client(url), 0, 0
    besides: dict[str, list[Visit]] = {}
    with client.http:
        visit(client, seed)  # the first one loads the model
        alone = [visit(client, seed + i) for i in range(n)]
        before = _memory_mb(pid, "VmRSS")
        for name, send in bombs.items():
            with sending(url, send) as found:
                besides[name] = [visit(client, seed + i) for i in range(n)]
            refused, sent = refused + sum(found), sent + len(found)
        after, peak = _memory_mb(pid, "VmRSS"), _memory_mb(pid, "VmHWM")
    page, run = medians(alone)
    visits = [visit for some in besides.values() for visit in some]
    figures = {
        "not_refused": sent - refused,
        "sent": sent,
        "page_alone_median_s": round(page, 3),
        "run_alone_median_s": round(run, 3),
        **compare_visits(alone, visits),
        **{
            f"{name.replace(' ', '_')}_worst_s": round(
                max(max(p - page, r - run) for p, r in some), 3
            )
            for name, some in besides.items()
        },
        "more_memory_at_most_mb": round(peak - before),
        "more_memory_after_mb": round(after - before),
    }  # fmt: skip
    return Measured(len(visits), figures)


def medians(visits: Sequence[Visit]) -> tuple[float, float]:
    """Return the median seconds of a page and of a run."""
    pages, runs = zip(*visits, strict=True)
    return statistics.median(pages), statistics.median(runs)


def compare_visits(alone: Sequence[Visit], beside: Sequence[Visit]) -> dict[str, float]:
    """Return how many visits failed, and how much longer the slowest beside something else took."""
    page, run = medians(alone)
    return {
        "failed": sum(float("inf") in visited for visited in (*alone, *beside)),
        "page_worst_beyond_alone_s": round(max(p for p, _ in beside) - page, 3),
        "run_worst_beyond_alone_s": round(max(r for _, r in beside) - run, 3),
    }


@contextmanager
def sending(url: str, send: Send) -> Iterator[list[bool]]:
    """Send something again and again until the block ends; the list then has what each returned."""
    ended, found = threading.Event(), list[bool]()
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(_send_repeatedly, url, ended, send)
        try:
            yield found
        finally:
            ended.set()
        found += sending.result()


def measure(n: int, seed: int) -> Measured:
    """Serve from a process of its own and measure ``n`` visits beside each bomb."""
    with tempfile.TemporaryDirectory() as folder, process(Path(folder) / "log") as (url, served):
        return watched(url, served.pid, _bombs(url, Path(folder)), n, seed)


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
