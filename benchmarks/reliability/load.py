"""Many visitors at once, each of whose connections is cut once: no step is lost, doubled or another's.

Every tenth of them comes back as a page that was loaded anew. What every run should be is asked of the
API afterwards, where nobody else is, for some of them.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.about import Goal
from benchmarks.reliability.cards import Measured, Part
from benchmarks.reliability.probe import probing
from benchmarks.reliability.visitor import LOST, Heard, PageVisitor, wait_between
from tests.helpers.client import Client
from tests.helpers.events import events_of
from tests.helpers.patience import PATIENCE_S
from tests.helpers.server import process
from tests.helpers.telling import runs_ended
from tests.helpers.wire import Wire, wire

RUNS = 3
STEPS = 50
_RELOADS = 0.1
_CUT_WHILE_ASKING = 0.15
_MOST_MESSAGES = 7
"""A run of so many steps is told in about as many messages; the cut comes after some of them."""
_SOON_S = 0.02
_ALONE = 5
"""Of so many runs one is compared with the same run alone."""
_RUN_S = 20.0
"""What a run may take on a busy machine, its share of the line included."""
_PROMPTS = ("Once upon a time", "The little bear", "Tom and his mom", "One day, a girl", "A frog")


@dataclass
class Pressed:
    """One run of one visitor, and what he heard of it."""

    asked: dict[str, Any]
    heard: Heard = field(default_factory=Heard)
    runs: set[str] = field(default_factory=set)
    foreign: int = 0
    cuts: int = 0
    reloads: int = 0
    gaps: int = 0
    repeated: int = 0

    def lost(self) -> int:
        """Return how many of its steps nobody was told of in the end."""
        return len(set(range(STEPS)) - set(self.heard.indices))

    def doubled(self) -> int:
        """Return how many steps were drawn a second time."""
        return len(self.heard.indices) - len(set(self.heard.indices))

    def strange(self) -> int:
        """Return how many messages, or runs, were another's."""
        header = self.heard.header
        own = (
            header.get("seed") == self.asked["seed"]
            and header.get("prompt") == self.asked["prompt"]
        )
        return self.foreign + (0 if own or not header else STEPS)


class _Trip:
    """A press from its beginning to its end, with one cut on the way."""

    def __init__(
        self, page: PageVisitor, line: Wire, pressed: Pressed, chance: random.Random, until: float
    ) -> None:
        self.page, self.line, self.pressed, self.until = page, line, pressed, until
        self.press = uuid.uuid4().hex
        self.reload = chance.random() < _RELOADS
        early = chance.random() < _CUT_WHILE_ASKING
        self.cut_asking_s = chance.random() * _SOON_S if early else None
        self.cut_after = None if early else chance.randrange(_MOST_MESSAGES)

    def go(self) -> None:
        """Press, listen and come back until the run has ended or the time is over."""
        again = False
        while not self.pressed.heard.status and time.monotonic() < self.until:
            try:
                self._ask(again)
                self._listen()
            except LOST:
                wait_between()
            again = True
        self._leave_page()

    def _ask(self, again: bool) -> None:
        run, following = self.pressed.heard.run, self.pressed.heard.next
        self.page.announce(self.press)
        asked = {**self.pressed.asked, "press": self.press}
        if again:
            asked |= {"resume": run != "", "run": run, "next": following}
        timer = None
        if self.cut_asking_s is not None and not self.pressed.cuts:
            timer = threading.Timer(self.cut_asking_s, self._cut)
            timer.start()
        try:
            self.page.ask(asked["strategy"], asked)
        finally:
            if timer is not None:
                timer.join()

    def _listen(self) -> None:
        for count, (message, last) in enumerate(self.page.messages(opened=self._opened), 1):
            if self.pressed.heard.take(message, last=last):
                self.pressed.gaps += 1
                self.page.ask("dp-bus", {"run": self.pressed.heard.run})
            if self.pressed.heard.status:
                return
            if count == self.cut_after:
                self._cut_once()

    def _opened(self) -> None:
        if self.cut_after == 0:
            self._cut_once()

    def _cut_once(self) -> None:
        if not self.pressed.cuts:
            self._cut()

    def _cut(self) -> None:
        self.pressed.cuts += 1
        self.line.cut()
        if self.reload:
            # A page that is loaded anew knows the names alone.
            self._leave_page()
            before = self.pressed.heard
            self.pressed.heard = Heard(run=before.run, earlier=before.earlier)
            self.pressed.reloads += 1
            self.page.reload()

    def _leave_page(self) -> None:
        heard = self.pressed.heard
        self.pressed.runs |= heard.runs
        self.pressed.foreign += heard.foreign
        self.pressed.repeated += heard.repeated


def visits(url: str, n: int, seed: int, until: float) -> list[Pressed]:
    """Let ``n`` visitors press Run three times each, all at once; return what they heard.

    Args:
        url: of the server.
        n: visitors.
        seed: of where the cuts are.
        until: ``time.monotonic()`` of when everybody gives up.
    """
    client = Client(url)
    events = events_of(client.get("/config").json())
    client.http.close()
    port = int(url.rpartition(":")[2])
    with ThreadPoolExecutor(n) as pool:
        pages = [pool.submit(_visit, port, events, number, seed, until) for number in range(n)]
        return [pressed for page in pages for pressed in page.result()]


def _visit(
    port: int, events: dict[str, int], number: int, seed: int, until: float
) -> list[Pressed]:
    chance = random.Random(f"{seed}/{number}")
    found: list[Pressed] = []
    with wire(port) as line:
        page = PageVisitor(f"http://127.0.0.1:{line.port}", events)
        for run in range(RUNS):
            earlier = frozenset(pressed.heard.run for pressed in found)
            asked = _asked(1000 * seed + RUNS * number + run)
            pressed = Pressed(asked, Heard(earlier=earlier))
            _Trip(page, line, pressed, chance, until).go()
            found.append(pressed)
        page.http.close()
    return found


def _asked(seed: int) -> dict[str, Any]:
    params = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, "temperature": 0.9}
    prompt = _PROMPTS[seed % len(_PROMPTS)]
    return {
        "strategy": "sampling",
        "prompt": prompt,
        "model": "storyteller",
        "seed": seed,
        "params": params,
    }


def unequal(url: str, presses: list[Pressed]) -> int:
    """Return how many runs have other tokens than the same request alone."""
    client, wrong = Client(url), 0
    for pressed in presses:
        asked = pressed.asked
        event, data = client.call(
            "sampling", asked["prompt"], asked["model"], asked["params"], asked["seed"]
        )
        alone = data[0]["outputs"] if event == "complete" else None
        told = [output["token_ids"] for output in pressed.heard.outputs]
        wrong += alone is None or told != [output["token_ids"] for output in alone]
    client.http.close()
    return wrong


def counted(url: str, n: int, seed: int, ended: Callable[[], list[str]]) -> Measured:
    """Let visitors come to a server and count what went wrong.

    Args:
        url: of the server.
        n: visitors.
        seed: of where the cuts are.
        ended: returns the ids of the runs that the server has decoded.
    """
    until = time.monotonic() + PATIENCE_S + RUNS * n * _RUN_S
    with probing(url, ("/config",)) as probe:
        presses = visits(url, n, seed, until)
    alone = presses[::_ALONE]
    wrong = unequal(url, alone)
    # The line serves who came first: what had been begun twice has ended by now.
    decoded = len(set(ended())) - len(alone)
    found = {
        "lost": sum(pressed.lost() for pressed in presses),
        "doubled": sum(pressed.doubled() for pressed in presses),
        "foreign": sum(pressed.strange() for pressed in presses),
        "decoded_twice": max(0, decoded - len(presses)),
        "unequal": wrong,
        "unfinished": sum(pressed.heard.status != "finished" for pressed in presses),
        "runs": len(presses),
        "steps": STEPS * len(presses),
        "cuts": sum(pressed.cuts > 0 for pressed in presses),
        "reloads": sum(pressed.reloads for pressed in presses),
        "gaps_asked_for": sum(pressed.gaps for pressed in presses),
        "sent_again": sum(pressed.repeated for pressed in presses),
        "probe_worst_s": probe.worst_s,
    }
    ends = {pressed.heard.status for pressed in presses} - {"finished"}
    return Measured(n, found, tuple(sorted(end or "not ended in time" for end in ends)))


def measure(n: int, seed: int) -> Measured:
    """Serve from a process of its own and let visitors come."""
    room = {"max_waiting_runs": RUNS * n + 8, "away_s": PATIENCE_S}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.txt"
        with process(log, ("-m", "tests.helpers.telling"), **room) as (url, _):
            return counted(url, n, seed, lambda: runs_ended(log))


NONE = Goal(0)
PART = Part(
    name="load",
    title="Steps under killed connections (n visitors, 3 runs of 50 steps each)",
    goals={
        "lost": NONE,
        "doubled": NONE,
        "foreign": NONE,
        "decoded_twice": NONE,
        "unequal": NONE,
        "unfinished": NONE,
    },
    measure=measure,
    short=12,
    nightly=100,
)
