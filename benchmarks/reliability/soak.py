"""Memory of a server over many visits, and over many runs of one visit: what grows after the warm-up."""

from __future__ import annotations

import statistics
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from benchmarks.about import Goal
from benchmarks.reliability.cards import Measured, Part
from benchmarks.reliability.visitor import Heard, PageVisitor
from tests.helpers.client import Client
from tests.helpers.events import events_of
from tests.helpers.patience import PATIENCE_S
from tests.helpers.server import process

_KEPT = {"max_sessions": 10, "max_kept_runs": 10, "max_waiting_runs": 8}
"""What a server keeps of recent visits and runs: few, so that it is full after the warm-up."""
_WARM = 130
"""More than the server keeps of anything: presses, journals, sessions, logits."""
_TOKENS = 6
_FEW = 0.2
"""The share of the samples at either end that is compared."""


class _Soak:
    """One server, and who comes to it.

    Args:
        url: of the server.
        pid: of its process.
    """

    def __init__(self, url: str, pid: int) -> None:
        self.url, self.process = url, psutil.Process(pid)
        client = Client(url)
        self.events = events_of(client.get("/config").json())
        client.http.close()
        self.count = self.unfinished = 0

    def visit(self) -> None:
        """Open the page as a new visitor, run something, and leave."""
        page = PageVisitor(self.url, self.events)
        with page.http:
            page.http.get("/").raise_for_status()
            page.http.get("/config").raise_for_status()
            self.run(page)

    def run(self, page: PageVisitor) -> None:
        """Run something on a page and hear it to its end."""
        press, heard = uuid.uuid4().hex, Heard()
        page.announce(press)
        page.ask("greedy", {**_asked(self.count), "press": press})
        for message, last in page.messages(PATIENCE_S):
            heard.take(message, last=last)
        self.count += 1
        self.unfinished += heard.status != "finished"

    def grown(self, act: Callable[[], None], n: int) -> tuple[float, float]:
        """Return by which share, in %, memory has grown over ``n`` acts, and the slope in kB an act."""
        sizes = []
        for _ in range(n):
            act()
            sizes.append(self.process.memory_info().rss)
        few = max(1, round(n * _FEW))
        first, last = statistics.median(sizes[:few]), statistics.median(sizes[-few:])
        slope = statistics.linear_regression(range(n), sizes).slope if n > 1 else 0.0
        return round(100 * (last - first) / first, 2), round(slope / 1000, 2)


def _asked(seed: int) -> dict[str, Any]:
    about = {"strategy": "greedy", "prompt": "Once upon a time", "model": "storyteller"}
    return {**about, "seed": seed, "params": {"max_new_tokens": _TOKENS}}


def measure(n: int, seed: int, warm: int = _WARM) -> Measured:
    """Let ``n`` visitors come, then one of them run ``n`` times.

    Args:
        n: visits, and runs.
        seed: nothing is drawn here.
        warm: visits before memory is looked at.
    """
    del seed
    with (
        tempfile.TemporaryDirectory() as folder,
        process(Path(folder) / "log.txt", **_KEPT) as (url, served),
    ):
        soak = _Soak(url, served.pid)
        for _ in range(warm):
            soak.visit()
        visits, visits_slope = soak.grown(soak.visit, n)
        page = PageVisitor(url, soak.events)
        with page.http:
            runs, runs_slope = soak.grown(lambda: soak.run(page), n)
        size = soak.process.memory_info().rss
    figures = {
        "visits_grown_percent": visits,
        "runs_grown_percent": runs,
        "unfinished": soak.unfinished,
        "visit_slope_kb": visits_slope,
        "run_slope_kb": runs_slope,
        "rss_mb": round(size / 1e6),
        "warm_up_visits": warm,
    }
    return Measured(n, figures)


PART = Part(
    name="soak",
    title="Memory of the server over n new visits, and over n runs of one visit, after a warm-up",
    goals={
        "visits_grown_percent": Goal(2),
        "runs_grown_percent": Goal(1),
        "unfinished": Goal(0),
    },
    measure=measure,
    short=60,
    nightly=200,
)
