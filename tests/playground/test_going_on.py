"""A run goes on when its server is started anew, or at another server: every step once, in its order."""

from __future__ import annotations

import json
import signal
import uuid

import httpx
import pytest

from benchmarks.reliability.visitor import LOST, Heard, PageVisitor, wait_between
from engine import DecodeRequest
from engine.run.decoding import finished
from tests.helpers.events import events_of
from tests.helpers.server import free_port, process

PROMPT = "Once upon a time, there was"
STEPS = 300


class Run:
    """A page that asks for one run and stays with it, wherever it goes on.

    Args:
        strategy: of the run.
        params: of it.
        seed: of it.
    """

    def __init__(self, strategy, seed=0, **params):
        params = {"max_new_tokens": STEPS, "min_new_tokens": STEPS, **params}
        self.element = strategy
        self.asked = {"strategy": strategy, "prompt": PROMPT, "params": params, "seed": seed}
        self.asked["press"] = uuid.uuid4().hex
        self.heard = Heard()
        self.states = 0

    def press(self, page):
        """Ask for it."""
        page.announce(self.asked["press"])
        page.ask(self.element, self.asked)

    def follow(self, page, until):
        """Listen until something is so, or the line is lost."""
        for message, last in page.messages():
            self.states += message["kind"] == "state"
            if self.heard.take(message, last=last):
                page.ask("dp-bus", {"run": self.heard.run})
            if until(self.heard):
                return

    def stay(self, page):
        """Ask for it again until it has ended."""
        while not self.heard.status:
            resume = {"resume": bool(self.heard.run), "run": self.heard.run}
            try:
                page.announce(self.asked["press"])
                page.ask(self.element, {**self.asked, **resume, "next": self.heard.next})
                self.follow(page, lambda heard: heard.status)
            except LOST:
                wait_between()


def page_at(url):
    with httpx.Client(trust_env=False) as client:
        return PageVisitor(url, events_of(client.get(f"{url}/config").json()))


def begun(heard):
    return len(heard.indices) > 5


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=["ended", "killed"])
def test_every_step_comes_once_when_the_server_is_started_anew(tmp_path, end):
    runs = [Run("greedy"), Run("sampling", seed=3, temperature=1.3), Run("speculative")]
    about = {"port": free_port(), "journal": tmp_path / "journal.db", "process_gone_s": 2.0}
    pages = []
    with process(tmp_path / "first.txt", **about) as (url, served):
        for run in runs[:1]:
            pages.append(page_at(url))
            run.press(pages[-1])
            run.follow(pages[-1], begun)
        served.send_signal(end)
        served.wait()
    with process(tmp_path / "second.txt", **about):
        for page, run in zip(pages, runs, strict=False):
            run.stay(page)
            page.http.close()
            check(run)


def check(run):
    assert run.heard.status == "finished", run.heard.status
    assert run.heard.indices == list(range(len(run.heard.indices)))
    assert run.states >= 1
    asked = run.asked
    alone = finished(
        DecodeRequest(asked["strategy"], prompt=PROMPT, params=asked["params"], seed=asked["seed"])
    )
    assert run.heard.outputs[0]["token_ids"] == list(alone.outputs[0].token_ids)
    assert len(run.heard.indices) == len(alone.steps)
    assert run.heard.runs == {run.heard.run}
    assert json.dumps(run.heard.outputs[0]["text"])
