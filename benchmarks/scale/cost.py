"""What a run and a visitor cost: processor time, bytes, memory, disk; one JSON line.

``python -m benchmarks.scale.cost [--steps 20 --repeats 2]``. A run's processor time is that of a process that does
nothing else; a page's is what the server's process takes for the same run, pressed on a page, beyond that.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil

from benchmarks.about import commit, machine, now, versions
from benchmarks.reliability.visitor import Heard, PageVisitor
from benchmarks.scale.mix import SHARING, heard, requests_of
from engine import DecodeRequest
from tests.helpers.client import Client
from tests.helpers.events import events_of
from tests.helpers.patience import PATIENCE_S
from tests.helpers.server import process

_PAGES, _CROWD, _IDLE_S = 30, 12, 10.0


class _Counted(httpx.SyncByteStream):
    """Passes an answer on and counts its bytes, as they came."""

    def __init__(self, stream: Any, count: CountingTransport) -> None:
        self._stream, self._count = stream, count

    def __iter__(self) -> Iterator[bytes]:
        for part in self._stream:
            self._count.got += len(part)
            yield part

    def close(self) -> None:
        self._stream.close()


class CountingTransport(httpx.HTTPTransport):
    """Counts the bytes of all bodies that came.

    Attributes:
        got: so many.
    """

    got = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request; see httpx."""
        answer = super().handle_request(request)
        answer.stream = _Counted(answer.stream, self)
        return answer


def counting(url: str, events: Mapping[str, int]) -> tuple[PageVisitor, CountingTransport]:
    """Return a page and what counts the bytes that come to it."""
    page, transport = PageVisitor(url, dict(events)), CountingTransport()
    page.http.close()
    page.http = httpx.Client(base_url=url, timeout=PATIENCE_S, transport=transport)
    return page, transport


def runs_alone(requests: Sequence[DecodeRequest], repeats: int) -> list[dict[str, Any]]:
    """Return what every request takes in a process that does nothing else; the first time does not count."""
    found: list[dict[str, Any]] = [
        {"seconds": [], "cpu_s": [], "first_s": [], "steps": 0} for _ in requests
    ]
    for turn in range(repeats + 1):
        for number, request in enumerate(requests):
            before = time.process_time()
            told = heard(request)
            if turn:
                one = found[number]
                one["cpu_s"].append(time.process_time() - before)
                one["seconds"].append(told.ended_at - told.pressed_at)
                one["first_s"].append(told.first_s)
                one["steps"] = len(told.indices)
    return found


def pressed(page: PageVisitor, request: DecodeRequest) -> tuple[Heard, int]:
    """Press Run on a page and hear the run to its end; return it, and the characters of its messages."""
    size = 0
    name, told = uuid.uuid4().hex, Heard()
    asked = {"prompt": request.prompt, "model": request.model, "params": dict(request.params)}
    page.announce(name)
    about = {"strategy": request.strategy, "seed": request.seed, "press": name}
    page.ask(request.strategy, {**asked, **about})
    for message, last in page.messages(PATIENCE_S):
        told.take(message, last=last)
        if not last and message["kind"] != "progress":
            size += len(json.dumps(message, separators=(",", ":")))
    return told, size


class _Server:
    """A web process and what it has used so far."""

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.process = url, psutil.Process(pid)
        client = Client(url)
        self.events = events_of(client.get("/config").json())
        client.http.close()

    def cpu_s(self) -> float:
        used = self.process.cpu_times()
        return used.user + used.system

    def by_page(self, requests: Sequence[DecodeRequest], repeats: int) -> list[dict[str, float]]:
        """Return processor seconds and bytes of every request, pressed on a page."""
        page, count = counting(self.url, self.events)
        found: list[list[tuple[float, int, int]]] = [[] for _ in requests]
        with page.http:
            for turn in range(repeats + 1):
                for number, request in enumerate(requests):
                    cpu, got = self.cpu_s(), count.got
                    told, size = pressed(page, request)
                    if told.status != "finished":
                        raise RuntimeError(f"{request.strategy}: {told.status}")
                    if turn:
                        found[number].append((self.cpu_s() - cpu, count.got - got, size))
        return [
            {
                "page_cpu_s": statistics.median(cpu for cpu, _, _ in of),
                "bytes_sent": statistics.median(got for _, got, _ in of),
                "journal_bytes": statistics.median(size for _, _, size in of),
            }
            for of in found
        ]

    def pages(self) -> dict[str, float]:
        """Return what opening a page costs, and what it costs while nobody does anything on it."""
        rss, cpu, got = self.process.memory_info().rss, self.cpu_s(), 0
        with ExitStack() as held:
            visitors = [counting(self.url, self.events) for _ in range(_PAGES)]
            for page, _ in visitors:
                held.callback(page.http.close)
                page.http.get("/").raise_for_status()
                page.http.get("/config").raise_for_status()
            opened, got = self.cpu_s() - cpu, sum(count.got for _, count in visitors)
            grown = self.process.memory_info().rss - rss
            nobody = self._idle()
            for page, _ in visitors:
                address = f"/gradio_api/heartbeat/{page.session}"
                held.enter_context(page.http.stream("GET", address))
            idle = self._idle()
        return {
            "open_cpu_s": opened / _PAGES,
            "open_bytes": got / _PAGES,
            "visitor_bytes": max(0.0, grown / _PAGES),
            "idle_web_s": max(0.0, (idle - nobody) / _PAGES / _IDLE_S),
            "nobody_web_s": nobody / _IDLE_S,
        }

    def _idle(self) -> float:
        before = self.cpu_s()
        time.sleep(_IDLE_S)
        return self.cpu_s() - before

    def waiting(self, request: DecodeRequest) -> float:
        """Return the processor seconds that a second of waiting costs."""
        visitors = [PageVisitor(self.url, self.events) for _ in range(_CROWD)]
        before = self.cpu_s()
        pressed(visitors[0], request)
        alone, began = self.cpu_s() - before, time.monotonic()
        before = self.cpu_s()
        with ThreadPoolExecutor(_CROWD) as pool:
            ends = list(pool.map(lambda page: _ended(page, request), visitors))
        waited = sum(end - began for end in ends) - (max(ends) - began)
        for page in visitors:
            page.http.close()
        return max(0.0, (self.cpu_s() - before - _CROWD * alone) / waited)


def _ended(page: PageVisitor, request: DecodeRequest) -> float:
    pressed(page, request)
    return time.monotonic()


def measure(steps: int, repeats: int) -> dict[str, Any]:
    """Return all costs; seconds are medians where there are several."""
    requests = requests_of(steps, custom=False)
    solo = runs_alone(requests, repeats)
    with tempfile.TemporaryDirectory() as folder:
        journal = Path(folder) / "journal.db"
        with process(Path(folder) / "log.txt", journal=journal) as (url, served):
            server = _Server(url, served.pid)
            empty = server.process.memory_info().rss
            by_page = server.by_page(requests, repeats)
            runs = len(requests) * (repeats + 1)
            time.sleep(1.0)
            disk = sum(path.stat().st_size for path in Path(folder).glob("journal.db*"))
            pages = server.pages()
            waiting = server.waiting(requests[0])
            rss = server.process.memory_info().rss
    kinds = [
        {
            "name": request.strategy,
            "shares": request.strategy in SHARING,
            **alone,
            **page,
            "web_s": max(0.0, page["page_cpu_s"] - statistics.median(alone["cpu_s"])),
        }
        for request, alone, page in zip(requests, solo, by_page, strict=True)
    ]
    return {
        "steps": steps,
        "kinds": kinds,
        **pages,
        "waiting_web_s": waiting,
        "journal_bytes": statistics.fmean(page["journal_bytes"] for page in by_page),
        "disk_bytes": disk / runs,
        "empty_rss_bytes": empty,
        "rss_bytes": rss,
        "own_rss_bytes": psutil.Process().memory_info().rss,
    }


def main() -> None:
    """Measure and tell."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale.cost", description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=2)
    read = parser.parse_args()
    about = {"date": now(), "commit": commit(), "machine": machine(), "versions": versions()}
    print(json.dumps({"cost": "all", **measure(read.steps, read.repeats), **about}))


if __name__ == "__main__":
    main()
