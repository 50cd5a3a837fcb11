"""The load programme through a web process that is killed once in the middle, and comes back on the same port."""

from __future__ import annotations

import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.reliability.visitor import LOST, Heard, PageVisitor, wait_between
from benchmarks.scale.hall import Load
from benchmarks.scale.mix import Told
from engine import DecodeRequest
from tests.helpers.client import Client
from tests.helpers.events import events_of
from tests.helpers.patience import PATIENCE_S
from tests.helpers.server import free_port, process

_RUN_S = 20.0
"""What a run may take on a busy machine, its share of the line included."""


class WebVisits:
    """Visitors with pages, and how many of their runs have ended.

    Args:
        url: of the server.
        load: how much is asked for.
        requests: the different runs.
    """

    def __init__(self, url: str, load: Load, requests: Sequence[DecodeRequest]) -> None:
        self.url, self.load, self.requests = url, load, requests
        client = Client(url)
        self.events = events_of(client.get("/config").json())
        client.http.close()
        self.until = time.monotonic() + PATIENCE_S + load.visitors * load.runs * _RUN_S
        self._together = threading.Barrier(load.visitors)
        self._ended = 0
        self._changed = threading.Condition()

    def go(self) -> list[tuple[int, Told]]:
        """Let everybody come; see ``hall.visits``."""
        with ThreadPoolExecutor(self.load.visitors) as pool:
            found = list(pool.map(self._visit, range(self.load.visitors)))
        return [run for runs in found for run in runs]

    def half(self) -> None:
        """Wait until half of all runs have ended."""
        runs = self.load.visitors * self.load.runs
        with self._changed:
            self._changed.wait_for(lambda: 2 * self._ended >= runs, self.until - time.monotonic())

    def _visit(self, number: int) -> list[tuple[int, Told]]:
        page, found, earlier = PageVisitor(self.url, self.events), [], set[str]()
        self._together.wait()
        with page.http:
            for turn in range(self.load.runs):
                which = (number * self.load.runs + turn) % len(self.requests)
                heard = Heard(earlier=frozenset(earlier))
                found.append((which, self._run(page, self.requests[which], heard)))
                earlier |= heard.runs
                with self._changed:
                    self._ended += 1
                    self._changed.notify_all()
        return found

    def _run(self, page: PageVisitor, request: DecodeRequest, heard: Heard) -> Told:
        """Press Run, and come back until the run has ended."""
        told, press, again = Told(time.monotonic()), uuid.uuid4().hex, False
        about = {"strategy": request.strategy, "prompt": request.prompt, "model": request.model}
        asked = {**about, "params": dict(request.params), "seed": request.seed, "press": press}
        while not heard.status and time.monotonic() < self.until:
            more: dict[str, Any] = {}
            if again:
                more = {"resume": heard.run != "", "run": heard.run, "next": heard.next}
            try:
                page.announce(press)
                page.ask(request.strategy, {**asked, **more})
                self._listen(page, heard, told)
            except LOST:
                wait_between()
            again = True
        told.ended_at = time.monotonic()
        told.indices, told.seed = heard.indices, heard.header.get("seed")
        if heard.status == "finished":
            told.tokens = tuple(tuple(output["token_ids"]) for output in heard.outputs)
        else:
            told.error = heard.status or "not ended in time"
        if heard.foreign:
            told.seed = -1
        return told

    def _listen(self, page: PageVisitor, heard: Heard, told: Told) -> None:
        for message, last in page.messages():
            if heard.take(message, last=last):
                page.ask("dp-bus", {"run": heard.run})
            now = time.monotonic()
            told.began_at = told.began_at or (now if heard.header else None)
            told.first_at = told.first_at or (now if heard.indices else None)
            if heard.status:
                return


def visited(load: Load, requests: Sequence[DecodeRequest], engine: str) -> list[tuple[int, Told]]:
    """Serve, let everybody come, and kill the server once when half of the runs have ended.

    Args:
        load: how much is asked for; ``restart`` says whether the server is killed.
        requests: the different runs.
        engine: what PLAYGROUND_ENGINE is.
    """
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        room = {"max_waiting_runs": load.visitors + 8, "away_s": PATIENCE_S, "engine": engine}
        room["journal"] = str(Path(folder) / "journal.db")
        log, later = Path(folder) / "log.txt", Path(folder) / "later.txt"
        with process(log, port=port, **room) as (url, served), ThreadPoolExecutor(1) as pool:
            visits = WebVisits(url, load, requests)
            found = pool.submit(visits.go)
            if not load.restart:
                return found.result()
            visits.half()
            served.kill()
            served.wait()
            with process(later, port=port, **room):
                return found.result()
