"""SIGTERM at a drawn moment, with runs under way for pages and for programs: the server leaves with status 0."""

from __future__ import annotations

import random
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psutil

from benchmarks.about import Goal
from benchmarks.reliability.cards import Measured, Part
from benchmarks.reliability.visitor import LOST, PageVisitor
from tests.helpers.client import Client
from tests.helpers.events import events_of
from tests.helpers.server import process

_GOAL_S = 5.0
_KILLED_S = 120.0
"""Whoever is asked to end is killed after a while; a busy machine gets more of it than a platform gives."""
_LATEST_S = 4.0
_PAGES, _CALLS = 2, 2
_TOKENS = 400
_LONG = {"max_new_tokens": _TOKENS, "min_new_tokens": _TOKENS, "guidance_scale": 1.5}
_CHECKED = {"do_sample": True, "distribution_runs": 2000, "max_new_tokens": 8}


@dataclass
class _Ending:
    status: int | None
    seconds: float
    answered: int
    left: int
    log: str = field(repr=False)


def _page(url: str, events: dict[str, int], seed: int, heard: list[int]) -> None:
    """Follow a long run as a page does until the line is gone."""
    page = PageVisitor(url, events)
    asked = {"strategy": "greedy", "prompt": "Once", "model": "storyteller", "seed": seed}
    with suppress(*LOST, httpx.StreamError), page.http:
        page.ask("greedy", {**asked, "params": _LONG, "press": f"press{seed}"})
        heard.extend(message["seq"] for message, _ in page.messages(_KILLED_S) if "seq" in message)


def _call(url: str, seed: int, heard: list[int]) -> None:
    """Ask as a program does; the server ends before it has the whole answer."""
    client = Client(url)
    with suppress(*LOST, httpx.StreamError, ValueError), client.http:
        client.call("prompt_lookup", "Once upon a time", None, _CHECKED, seed)
        heard.append(seed)


def _ended(number: int, seed: int) -> _Ending:
    """Serve, let pages and programs ask, end the server, and return how it ended."""
    chance, heard = random.Random(f"{seed}/{number}"), []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        with process(log) as (url, served):
            client = Client(url)
            events = events_of(client.get("/config").json())
            client.http.close()
            threads = [
                threading.Thread(target=_page, args=(url, events, i, heard)) for i in range(_PAGES)
            ] + [threading.Thread(target=_call, args=(url, i, heard)) for i in range(_CALLS)]
            for thread in threads:
                thread.start()
            time.sleep(chance.random() * _LATEST_S)
            children = psutil.Process(served.pid).children(recursive=True)
            before = len(heard)
            status, seconds = _terminated(served)
            left = sum(child.is_running() for child in children)
        for thread in threads:
            thread.join(_KILLED_S)
        return _Ending(status, seconds, before, left, log.read_text(errors="replace")[-500:])


def _terminated(served: subprocess.Popen[bytes]) -> tuple[int | None, float]:
    """Send SIGTERM; return the exit status, None where it has to be killed, and the seconds until then."""
    began = time.perf_counter()
    served.send_signal(signal.SIGTERM)
    try:
        status = served.wait(_KILLED_S)
    except subprocess.TimeoutExpired:
        status = None
    return status, round(time.perf_counter() - began, 2)


def measure(n: int, seed: int) -> Measured:
    """End ``n`` servers."""
    endings = [_ended(number, seed) for number in range(n)]
    seconds = sorted(ending.seconds for ending in endings)
    bad = [ending for ending in endings if ending.status != 0]
    figures = {
        "other_status": sum(ending.status is not None for ending in bad),
        "killed": sum(ending.status is None for ending in bad),
        "processes_left": sum(ending.left for ending in endings),
        "slowest_s": seconds[-1],
        "median_s": seconds[len(seconds) // 2],
        "with_messages_under_way": sum(ending.answered > 0 for ending in endings),
    }
    return Measured(n, figures, tuple(f"{ending}: {ending.log!r}" for ending in bad))


PART = Part(
    name="ends",
    title="SIGTERM at drawn moments with runs under way (n servers)",
    goals={
        "other_status": Goal(0),
        "killed": Goal(0),
        "processes_left": Goal(0),
        "slowest_s": Goal(_GOAL_S, of_speed=True),
    },
    measure=measure,
    short=8,
    nightly=100,
    short_s=1800.0,
    nightly_s=14400.0,
)
